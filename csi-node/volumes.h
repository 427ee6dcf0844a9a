// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "csi-node/csi_client.h"
#include "csi-node/plugins.h"
#include "csi-node/rpc_slots.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/base/worker_pool.h"
#include "mountd/caller.h"
#include "mountd/config.h"
#include "mountd/exec/executor.h"
#include "mountd/progress.h"
#include "mountd/store/state_store.h"

namespace mountd::csi {

struct PublishSpec {
  std::string allocation;
  std::string alias;
  std::string plugin;
  std::string volume_id;
  bool read_only = false;
  VolumeCapability capability;
  StringMap publish_context;
  StringMap volume_context;
  std::uint32_t uid = 0;  // the allocation's owner
};

struct PublishedVolume {
  std::string host_path;
  bool read_only = false;
  PublicationRecord record;
};

// What a task needs to use a block device that is given to it, as OCI runtimes
// and Docker's --device-cgroup-rule write it: "b 7:3 rwm", read-only "b 7:3 r".
std::string DeviceRuleOf(const PublishedVolume& volume);

std::string_view VolumeStateName(VolumeState state);
std::string_view PublicationStateName(PublicationState state);

// Told from workers, on edges.
struct VolumeEvents {
  // What a plugin published answers no more, or does again. `health`: kHealthy,
  // kDead.
  std::function<void(const VolumeRecord&, exec::MountHealth health,
                     const std::string& reason)>
      on_health = [](const auto&, auto, const auto&) {};
  // Staging the volume again takes what no store holds (secrets, mount flags):
  // the agent's call of PublishVolume with them goes on.
  std::function<void(const VolumeRecord&, const PublicationRecord&)>
      on_secrets_needed = [](const auto&, const auto&) {};
  // There is more for FinishDeparted to do.
  std::function<void()> on_owed = [] {};
  // ListUnsettled has one more.
  std::function<void()> on_unsettled = [] {};
};

// How a user of a volume leaves it.
struct Leaving {
  std::uint64_t cgroup = 0;     // the allocation's; 0: none, or not known
  bool ignores_tasks = false;   // goes also if they have copies
  bool was_looked_for = false;  // copies, on all of the node, just now
};

// Volumes on this node: staged once, published to each allocation that uses
// them. One staging path per volume and node (CSI spec, NodeStageVolume); a
// volume is staged while it has users, and the users are rows on disk.
//
//   volume:       (none) -> staging -> staged -> unstaging -> (none)
//   publication:  (none) -> publishing -> published -> unpublishing -> (none)
//
// Every arrow into a state in "-ing" is written before its RPC. An answer that
// is not final leads to "uncertain" from either: the same calls are made again
// with the same arguments, by the next publish or by Settle, until the answer
// is final; the release undoes both. NOT_FOUND on the way down means done.
//
// A plugin that is away keeps nobody's allocation: what it published is
// detached without it, and NodeUnpublishVolume and NodeUnstageVolume stay owed
// ("departed"), until FinishDeparted.
//
// Methods block. Calls for one allocation come one at a time (its strand);
// those of one volume are ordered here.
class Volumes {
 public:
  Volumes(const Config& config, exec::Executor& executor, CsiClient& client,
          Plugins& plugins, store::StateStore& store,
          VolumeEvents events = VolumeEvents());

  // Turns what was under way, and what is not mounted any more as recorded,
  // into uncertain. Needs no plugin.
  Result<void> Recover();

  // Idempotent. FailedPrecondition if the volume is in use with other mount
  // options or access; PermissionDenied if it is staged for another user (whose
  // secrets opened it); AlreadyExists if the alias is another volume's; Aborted
  // if it was cancelled while it waited: nothing was done then.
  Result<PublishedVolume> Publish(const PublishSpec& spec,
                                  const UniqueFd& secrets,
                                  const CancelToken& cancelled,
                                  const Progress& progress = Progress());
  // Success if there is no such publication, and if the plugin is away. Busy,
  // with nothing changed, if tasks have copies of their own (mountd/copies.h);
  // where these are ignored it is a success, and the volume stays as it is
  // until FinishDeparted finds none. On another failure the publication stays,
  // "unpublishing", to be tried again: also when only the unstage failed, or
  // copies were found after it.
  Result<void> Unpublish(const std::string& allocation,
                         const std::string& alias,
                         const Progress& progress = Progress(),
                         const Leaving& leaving = {});
  // Does what is owed for those who left while the plugin was away, or tasks
  // had copies. Unavailable and Busy while it still is so.
  Result<void> FinishDeparted(const std::string& plugin,
                              const std::string& volume_id);

  // ---- In use ----
  // The node's part of growing a volume; the controller's, where the plugin has
  // one, comes before. Answers the size, 0 if the plugin does not tell.
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

  // ---- What is uncertain ----
  // Those whose last publish got no final answer, and whose arguments this
  // process still has.
  struct Unsettled {
    std::string allocation;
    std::string alias;
  };
  std::vector<Unsettled> ListUnsettled() const;
  // Makes the same calls once more. Ok if it is settled, either way.
  Result<void> Settle(const Unsettled& one);

  // ---- What a plugin's end has broken ----
  struct Restoration {
    // May be mounted from again: tasks' mounts of it are to be repaired.
    std::vector<PublicationRecord> restored;
    bool complete = true;  // else some could not be restored, as is logged
  };
  // Looks at all that the plugin has published, and publishes anew what is dead
  // or gone.
  Result<Restoration> RestoreDead(const std::string& plugin);

  Result<std::optional<PublishedVolume>> Get(const std::string& allocation,
                                             const std::string& alias);
  Result<std::vector<PublicationRecord>> Of(const std::string& allocation);

  // Keeps the volume from being published here, for as long as the guard lives.
  // Busy while it is staged or published, or either is uncertain.
  Result<KeyedLocks::Guard> LockUnused(const std::string& plugin,
                                       const std::string& volume_id);

 private:
  struct Call;  // one publish on its way
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
  // `call(session, deadline)`, with the plugin's channel of the moment.
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

  // ---- The way up ----
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

  // ---- The way down ----
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

  // ---- What died with its plugin ----
  struct Look {
    std::vector<PublicationRecord> broken;
    std::string reason;  // "" if none was believed whole
  };
  Result<Look> LookAtUsers(const VolumeRecord& volume);
  Result<exec::ProbeReply> Probe(const exec::VolumeProbePlan& plan);
  Result<std::vector<PublicationRecord>> Restore(const VolumeKey& key);
  Result<void> TakeAway(const VolumeRecord& volume,
                        const std::vector<PublicationRecord>& users);
  Result<std::vector<PublicationRecord>> PublishAnew(
      const VolumeRecord& volume, const std::vector<PublicationRecord>& users);

  const Config& config_;
  exec::Executor& executor_;
  CsiClient& client_;
  Plugins& plugins_;
  store::StateStore& store_;
  const VolumeEvents events_;
  KeyedLocks volumes_;
  RpcSlots slots_;
  mutable std::mutex kept_mutex_;
  std::map<UserKey, Kept> kept_;  // kept_mutex_; of those that are uncertain
};

}  // namespace mountd::csi
