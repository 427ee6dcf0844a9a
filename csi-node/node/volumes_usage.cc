// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Volumes in use: their size and condition.
#include <utility>

#include "csi-node/node/volume_capability.h"
#include "csi-node/node/volume_paths.h"
#include "csi-node/node/volume_requests.h"

namespace mountd::csi {

Result<Volumes::InUse> Volumes::FindInUse(const char* op,
                                          const std::string& allocation,
                                          const std::string& alias) {
  const std::string object = Described(allocation, alias);
  MOUNTD_ASSIGN(const std::optional<PublicationRecord> publication,
                store_.volumes.GetPublication(allocation, alias));
  if (!publication) {
    return MakeError(Code::kNotFound, op, object,
                     "is not published for this allocation; publish it first");
  }
  if (publication->state != PublicationState::kPublished) {
    return MakeError(
        Code::kFailedPrecondition, op, object,
        "is " + std::string(PublicationStateName(publication->state)));
  }
  MOUNTD_ASSIGN(std::optional<VolumeRecord> volume,
                store_.volumes.GetVolume(publication->key));
  if (!volume) {
    return MakeError(Code::kInternal, op, object,
                     "mountd has no record of its volume");
  }
  return InUse{*publication, *std::move(volume)};
}

Result<std::int64_t> Volumes::Expand(const ExpandSpec& spec,
                                     const UniqueFd& secrets,
                                     const CancelToken& cancelled,
                                     const Progress& progress) {
  const std::string object = Described(spec.allocation, spec.alias);
  if (spec.required_bytes < 0 || spec.limit_bytes < 0 ||
      (spec.limit_bytes != 0 && spec.limit_bytes < spec.required_bytes)) {
    return MakeError(Code::kInvalidArgument, "expand", object,
                     "limit_bytes is smaller than required_bytes");
  }
  MOUNTD_ASSIGN(const InUse before,
                FindInUse("expand", spec.allocation, spec.alias));
  const KeyedLocks::Guard guard = LockVolume(before.volume.key, progress);
  // Reads the records again, because they may have changed during the wait.
  MOUNTD_ASSIGN(const InUse use,
                FindInUse("expand", spec.allocation, spec.alias));
  AwaitPlugin(use.volume.plugin, progress);
  MOUNTD_TRY(CheckNotCancelled(cancelled, "expand", object));
  MOUNTD_ASSIGN(const Plugins::Session first, plugins_.Use(use.volume.plugin));
  if (!Offers(first.status.capabilities, NodeRpc::kExpandVolume)) {
    return MakeError(Code::kNotSupported, "expand", object,
                     "the plugin does not offer EXPAND_VOLUME on the node");
  }
  const RpcResult<std::int64_t> outcome = CallNode<std::int64_t>(
      {use.volume.plugin, Step::kExpand, cancelled, progress},
      [&](const Plugins::Session& session, Clock::time_point deadline) {
        const VolumePaths paths = PathsOf(use.volume, use.publication, session);
        ExpandRequest request;
        request.volume_id = use.volume.volume_id;
        request.volume_path = paths.target;
        request.staging_target_path = paths.staging;
        request.required_bytes = spec.required_bytes;
        request.limit_bytes = spec.limit_bytes;
        request.capability = CapabilityOf(use.volume);
        return client_.NodeExpandVolume(session.channel, request, secrets,
                                        deadline);
      });
  if (!outcome) {
    return ToError(outcome.error(), "NodeExpandVolume", object);
  }
  return *outcome;
}

Result<VolumeStats> Volumes::Stats(const std::string& allocation,
                                   const std::string& alias) {
  const std::string object = Described(allocation, alias);
  MOUNTD_ASSIGN(const InUse use, FindInUse("get stats", allocation, alias));
  plugins_.AwaitFirstAttempt(use.volume.plugin);
  MOUNTD_ASSIGN(const Plugins::Session session,
                plugins_.Use(use.volume.plugin));
  if (!Offers(session.status.capabilities, NodeRpc::kGetVolumeStats)) {
    return MakeError(Code::kNotSupported, "get stats", object,
                     "the plugin does not offer GET_VOLUME_STATS");
  }
  const VolumePaths paths = PathsOf(use.volume, use.publication, session);
  // Makes only one try, because the call changes nothing and its caller can
  // repeat it.
  const RpcSlots::Slot slot(slots_, use.volume.plugin);
  RpcResult<VolumeStats> stats = client_.NodeGetVolumeStats(
      session.channel, use.volume.volume_id, paths.target, paths.staging,
      Clock::now() + config_.timeouts.rpc);
  if (!stats) {
    // The plugin cannot measure a volume that was unpublished meanwhile.
    MOUNTD_TRY(FindInUse("get stats", allocation, alias));
    return ToError(stats.error(), "NodeGetVolumeStats", object);
  }
  if (!Offers(session.status.capabilities, NodeRpc::kVolumeCondition)) {
    // A condition that the plugin does not offer does not count.
    stats->condition.reset();
  }
  return *std::move(stats);
}

}  // namespace mountd::csi
