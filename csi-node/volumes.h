// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "csi-node/csi_client.h"
#include "csi-node/plugins.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/base/worker_pool.h"
#include "mountd/caller.h"
#include "mountd/exec/executor.h"
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

std::string_view VolumeStateName(VolumeState state);
std::string_view PublicationStateName(PublicationState state);

// Volumes on this node: staged once, published to each allocation that uses
// them. One staging path per volume and node (CSI spec, NodeStageVolume); a
// volume is staged while it has users, and the users are rows on disk.
//
//   volume:       (none) -> staging -> staged -> unstaging -> (none)
//   publication:  (none) -> publishing -> published -> unpublishing -> (none)
//
// Every arrow into a state in "-ing" is written before its RPC. An answer that
// is not final leads to "uncertain" from either: the next publish makes the
// same calls again, the release undoes both. Only a final failure, or success,
// leaves that state. NOT_FOUND on the way down means done.
//
// Methods block. Calls for one allocation come one at a time (its strand);
// those of one volume are ordered here.
class Volumes {
 public:
  Volumes(const TimeoutsConfig& timeouts, exec::Executor& executor,
          CsiClient& client, Plugins& plugins, store::StateStore& store);

  // Turns what was under way, and what is not mounted any more as recorded,
  // into uncertain. Needs no plugin.
  Result<void> Recover();

  // Idempotent. FailedPrecondition if the volume is in use with other mount
  // options or access; PermissionDenied if it is staged for another user (whose
  // secrets opened it); AlreadyExists if the alias is another volume's.
  Result<PublishedVolume> Publish(const PublishSpec& spec,
                                  const UniqueFd& secrets,
                                  const CancelToken& cancelled);
  // Success if there is no such publication. On failure the publication stays,
  // "unpublishing", to be tried again: also when only the unstage failed.
  Result<void> Unpublish(const std::string& allocation,
                         const std::string& alias);

  Result<std::optional<PublishedVolume>> Get(const std::string& allocation,
                                             const std::string& alias);
  Result<std::vector<PublicationRecord>> Of(const std::string& allocation);

  // Keeps the volume from being published here, for as long as the guard lives.
  // Busy while it is staged or published, or either is uncertain.
  Result<KeyedLocks::Guard> LockUnused(const std::string& plugin,
                                       const std::string& volume_id);

 private:
  Result<void> RecoverPublication(PublicationRecord& publication);

  struct Call;  // one publish or unpublish on its way

  Result<void> Stage(Call& call);
  Result<void> PublishStaged(Call& call);
  Result<void> CheckCompatible(const VolumeRecord& volume,
                               const PublishSpec& spec);
  Result<void> AbandonPublication(Call& call);
  Result<void> MarkUncertain(PublicationRecord publication);
  Result<void> UnpublishOne(PublicationRecord publication,
                            const VolumeRecord& volume);
  Result<void> DropUser(const PublicationRecord& publication,
                        const VolumeRecord& volume);
  Result<void> Unstage(const VolumeRecord& volume);

  const TimeoutsConfig& timeouts_;
  exec::Executor& executor_;
  CsiClient& client_;
  Plugins& plugins_;
  store::StateStore& store_;
  KeyedLocks volumes_;
};

}  // namespace mountd::csi
