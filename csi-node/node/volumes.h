// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "csi-node/node/plugins.h"
#include "csi-node/node/rpc_slots.h"
#include "csi-node/node/volume_conditions.h"
#include "csi-node/node/volume_values.h"
#include "csi-node/types/csi_client.h"
#include "mountd/base/caller.h"
#include "mountd/base/progress.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/base/worker_pool.h"
#include "mountd/config/config.h"
#include "mountd/plan/plugin_executor.h"
#include "mountd/plan/task_executor.h"
#include "mountd/store/state_store.h"

namespace mountd::csi {

// Owns the volumes on this node: each is staged once, and published to each
// allocation that uses it. A volume has one staging path on the node (CSI spec,
// NodeStageVolume) and is staged while it has users, which are rows on disk.
//
//   volume:       (none) -> staging -> staged -> unstaging -> (none)
//   publication:  (none) -> publishing -> published -> unpublishing -> (none)
//
// Writes each state in "-ing" before its RPC. An answer that is not final leads
// from each "-ing" to "uncertain". Then the next publish or Settle repeats the
// same calls with the same arguments until the answer is final, or the release
// undoes both. NOT_FOUND for an unpublish or unstage means that it is done.
//
// An absent plugin does not delay the release of an allocation. Volumes
// detaches what the plugin published, and NodeUnpublishVolume and
// NodeUnstageVolume stay pending ("departed") until FinishDeparted.
//
// Methods block. Calls for one allocation come one at a time (its strand). This
// class orders the calls for one volume.
class Volumes {
 public:
  Volumes(const Config& config, exec::PluginExecutor& executor,
          exec::TaskExecutor& searches, CsiClient& client, Plugins& plugins,
          store::StateStore& store, VolumeEvents events = VolumeEvents());

  // Makes uncertain what was under way, and what is no longer mounted as
  // recorded. Needs no plugin.
  Result<void> Recover();

  // Idempotent. Errors:
  // - FailedPrecondition if the volume's users have other mount options or
  //   access.
  // - PermissionDenied if the volume is staged for another user, because that
  //   user's secrets opened it.
  // - AlreadyExists if the alias is another volume's.
  // - Aborted, with nothing done, if the call was cancelled while it waited.
  Result<PublishedVolume> Publish(const PublishSpec& spec,
                                  const UniqueFd& secrets,
                                  const CancelToken& cancelled,
                                  const Progress& progress = Progress());
  // Ok if there is no such publication, and if the plugin is away. Busy, with
  // nothing changed, if tasks have copies of their own
  // (mountd/executors/task_copies.h). If `leaving` ignores copies, Ok, and the
  // volume stays as it is until FinishDeparted finds none. After any other
  // failure the publication stays, "unpublishing", and is tried again; this
  // includes a failed unstage, and copies that were found after the unstage.
  Result<void> Unpublish(const std::string& allocation,
                         const std::string& alias,
                         const Progress& progress = Progress(),
                         const Leaving& leaving = {});
  // Makes the pending calls for users who left while the plugin was away, or
  // while tasks had copies. Unavailable while the plugin is still away, Busy
  // while tasks still have copies.
  Result<void> FinishDeparted(const std::string& plugin,
                              const std::string& volume_id);

  // ---- In use ----
  // Grows the node's part of a volume. If the plugin has a controller, the
  // controller's part comes before. Returns the size, 0 if the plugin does not
  // say.
  struct ExpandSpec {
    std::string allocation;
    std::string alias;
    std::int64_t required_bytes = 0;
    std::int64_t limit_bytes = 0;  // 0: none
  };
  Result<std::int64_t> Expand(const ExpandSpec& spec, const UniqueFd& secrets,
                              const CancelToken& cancelled,
                              const Progress& progress = Progress());
  Result<VolumeStats> Stats(const std::string& allocation,
                            const std::string& alias);

  // ---- Conditions (CSI: VOLUME_CONDITION, GET_VOLUME_HEALTH) ----
  // Lists the volumes whose plugins report conditions, and forgets the
  // conditions of all others, except while their plugin is away.
  Result<std::vector<ReportingVolume>> ListReporting();
  // Asks the plugin once, and calls on_condition if subscribers should know the
  // answer. Does not ask while a call works on the volume. False if no answer
  // came in time.
  bool AskCondition(const VolumeKey& key);
  std::optional<VolumeCondition> ConditionOf(const VolumeKey& key) const {
    return conditions_.Of(key);
  }

  // ---- Uncertain outcomes ----
  // The publications whose last publish got no final answer, and whose
  // arguments this process still has.
  struct Unsettled {
    std::string allocation;
    std::string alias;
  };
  std::vector<Unsettled> ListUnsettled() const;
  // Makes the same calls again. Ok if their outcome is final now.
  // FailedPrecondition, with nothing published, while may_restore refuses.
  Result<void> Settle(const Unsettled& one);

  // ---- After a plugin's end ----
  struct Restoration {
    // Tasks' mounts of these publications may be repaired now.
    std::vector<PublicationRecord> restored;
    bool complete = true;  // false: some failed; the log has them
  };
  // Probes all that the plugin has published. Unmounts dead or lost
  // publications, and publishes them again unless may_restore refuses their
  // allocation.
  Result<Restoration> RestoreDead(const std::string& plugin);
  // Takes the publication from its allocation and leaves it uncertain, for a
  // publish that ended after its lease had lapsed.
  Result<void> TakeBack(const Unsettled& one);

  Result<std::optional<PublishedVolume>> Get(const std::string& allocation,
                                             const std::string& alias);
  Result<std::vector<PublicationRecord>> Of(const std::string& allocation);

  // Keeps the volume from being published here while the guard lives. Busy
  // while the volume is staged or published, or either is uncertain.
  Result<KeyedLocks::Guard> LockUnused(const std::string& plugin,
                                       const std::string& volume_id);

 private:
  struct Call;  // one publish under way
  struct Kept {
    PublishSpec spec;
    UniqueFd secrets;
  };
  using UserKey = std::pair<std::string, std::string>;  // allocation, alias

  struct InUse {
    PublicationRecord publication;
    VolumeRecord volume;
  };
  Result<InUse> FindInUse(const char* op, const std::string& allocation,
                          const std::string& alias);

  Result<void> RecoverPublication(PublicationRecord& publication);

  // ---- One RPC, tried until it is final ----
  // Each try runs `call(session, deadline)` with the plugin's current channel.
  struct NodeCall {
    const std::string& plugin;
    Step step;
    CancelToken cancelled;
    const Progress& progress;
  };
  template <typename T, typename F>
  RpcResult<T> CallNode(const NodeCall& node, F call);
  KeyedLocks::Guard LockVolume(const VolumeKey& key, const Progress& progress);
  void AwaitPlugin(const std::string& plugin, const Progress& progress);
  Result<void> CallUnpublish(const VolumeRecord& volume,
                             const std::string& allocation,
                             const Progress& progress);
  Result<void> CallUnstage(const VolumeRecord& volume,
                           const Progress& progress);
  bool IsAway(const std::string& plugin) const;

  std::optional<InUse> FindReporting(const VolumeKey& key);
  RpcResult<std::optional<VolumeCondition>> CallForCondition(
      const InUse& use, const Plugins::Session& session);

  // ---- Publish ----
  Result<PublishedVolume> PublishLocked(const PublishSpec& spec,
                                        const UniqueFd& secrets,
                                        const CancelToken& cancelled,
                                        const Progress& progress);
  Result<void> CheckCompatible(const VolumeRecord& volume,
                               const PublishSpec& spec);
  Result<void> Stage(Call& call);
  Result<void> PublishStaged(Call& call);
  Result<void> CheckPublished(Call& call, const exec::VolumeDirPlan& dir);
  Result<void> AbandonPublication(Call& call);
  Result<void> MarkUncertain(PublicationRecord publication);
  Error EndUncertain(Call& call, const RpcError& last, const char* rpc);
  void Keep(const Call& call);
  bool IsKept(const std::string& allocation, const std::string& alias) const;
  void Drop(const std::string& allocation, const std::string& alias);

  // ---- Unpublish ----
  Result<void> UnpublishOne(const PublicationRecord& publication,
                            const VolumeRecord& volume,
                            const Progress& progress);
  Result<void> DropUser(const PublicationRecord& publication,
                        const VolumeRecord& volume, const Progress& progress,
                        std::uint64_t cgroup = 0);
  enum class Target { kKept, kDetached, kGone };
  Result<void> Depart(const PublicationRecord& publication,
                      const VolumeRecord& volume, Target target,
                      std::uint64_t cgroup, const Error& why);
  exec::CopiesPlan CopiesOf(const VolumeRecord& volume,
                            const std::string& allocation,
                            const exec::FileSystemPlan& before,
                            std::uint64_t cgroup) const;
  Result<void> CheckBefore(const VolumeRecord& volume, const Leaving& leaving,
                           PublicationRecord* publication);
  Result<void> CheckDeparted(const VolumeRecord& volume,
                             const DepartedRecord& departed);
  Result<void> CheckAfter(const VolumeRecord& volume,
                          const std::string& allocation,
                          const exec::FileSystemPlan& before,
                          std::uint64_t cgroup);
  Result<void> FinishTargets(const VolumeRecord& volume,
                             const Progress& progress);
  Result<void> Unstage(const VolumeRecord& volume, const Progress& progress);

  // ---- Volumes that died with their plugin ----
  struct Look;
  Result<Look> LookAtUsers(const VolumeRecord& volume);
  Result<exec::ProbeReply> Probe(const exec::VolumeProbePlan& plan);
  Result<std::vector<PublicationRecord>> Restore(const VolumeKey& key);
  Result<void> TakeAway(const VolumeRecord& volume,
                        const std::vector<PublicationRecord>& users);
  Result<std::vector<PublicationRecord>> PublishAnew(
      const VolumeRecord& volume, const std::vector<PublicationRecord>& users);

  const Config& config_;
  exec::PluginExecutor& executor_;
  exec::TaskExecutor& searches_;
  CsiClient& client_;
  Plugins& plugins_;
  store::StateStore& store_;
  const VolumeEvents events_;
  KeyedLocks volumes_;
  RpcSlots slots_;
  VolumeConditions conditions_;
  mutable std::mutex kept_mutex_;
  std::map<UserKey, Kept> kept_;  // kept_mutex_; of uncertain publications
};

}  // namespace mountd::csi
