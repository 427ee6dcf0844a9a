// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/volumes.h"

#include <algorithm>
#include <utility>

#include "csi-node/rpc_retry.h"
#include "mountd/base/paths.h"
#include "mountd/exec/wire.h"

namespace mountd::csi {
namespace {

exec::VolumeDirPlan StagingDir(const VolumeRecord& volume) {
  exec::VolumeDirPlan plan;
  plan.plugin = exec::ToWire(volume.plugin);
  plan.area = exec::VolumeArea::kStaging;
  plan.volume = volume.key.hex();
  return plan;
}

exec::VolumeDirPlan PublishDir(const VolumeRecord& volume,
                               const std::string& allocation) {
  exec::VolumeDirPlan plan = StagingDir(volume);
  plan.area = exec::VolumeArea::kPublish;
  plan.allocation = exec::ToWire(allocation);
  return plan;
}

std::string StagingPart(const VolumeKey& key) {
  return std::string(paths::kStaging) + "/" + key.str();
}

std::string PublishPart(const VolumeKey& key, const std::string& allocation) {
  return std::string(paths::kPublish) + "/" + allocation + "/" + key.str();
}

std::string Described(const std::string& allocation, const std::string& alias) {
  return "volume " + allocation + "/" + alias;
}

// Flags may hold secrets: a digest tells whether two users' are the same.
std::string DigestOf(const VolumeCapability& capability) {
  std::string flags;
  for (const std::string& flag : capability.mount_flags) {
    flags += std::to_string(flag.size()) + ":" + flag;
  }
  return VolumeKey::Derive(
             capability.fs_type + "\n" + capability.volume_mount_group, flags)
      .str();
}

bool WritersMayShare(AccessMode mode) {
  return mode == AccessMode::kMultiNodeMultiWriter ||
         mode == AccessMode::kSingleNodeMultiWriter ||
         mode == AccessMode::kSingleNodeWriter;
}

bool IsReaderMode(AccessMode mode) {
  return mode == AccessMode::kSingleNodeReaderOnly ||
         mode == AccessMode::kMultiNodeReaderOnly;
}

PublishedVolume ResultOf(const PublicationRecord& record,
                         const std::string& plugin) {
  return {
      PluginHostPath(plugin) + "/" + PublishPart(record.key, record.allocation),
      record.read_only, record};
}

}  // namespace

std::string_view VolumeStateName(VolumeState state) {
  switch (state) {
    case VolumeState::kStaging:
      return "staging";
    case VolumeState::kStaged:
      return "staged";
    case VolumeState::kUnstaging:
      return "unstaging";
    case VolumeState::kUncertain:
      break;
  }
  return "uncertain";
}

std::string_view PublicationStateName(PublicationState state) {
  switch (state) {
    case PublicationState::kPublishing:
      return "publishing";
    case PublicationState::kPublished:
      return "published";
    case PublicationState::kUnpublishing:
      return "unpublishing";
    case PublicationState::kUncertain:
      break;
  }
  return "uncertain";
}

struct Volumes::Call {
  const PublishSpec& spec;
  const UniqueFd& secrets;
  const CancelToken& cancelled;
  VolumeRecord volume;
  PublicationRecord publication;
  Plugins::Session session;
  bool known = false;  // an earlier attempt may have published it
};

Volumes::Volumes(const TimeoutsConfig& timeouts, exec::Executor& executor,
                 CsiClient& client, Plugins& plugins, store::StateStore& store)
    : timeouts_(timeouts),
      executor_(executor),
      client_(client),
      plugins_(plugins),
      store_(store) {}

Result<void> Volumes::Recover() {
  MOUNTD_ASSIGN(const std::vector<VolumeRecord> volumes, store_.ListVolumes());
  for (const VolumeRecord& volume : volumes) {
    if (volume.state != VolumeState::kStaged) {
      MOUNTD_TRY(store_.SetVolumeState(volume.key, VolumeState::kUncertain));
    }
  }
  MOUNTD_ASSIGN(std::vector<PublicationRecord> publications,
                store_.ListPublications());
  for (PublicationRecord& publication : publications) {
    MOUNTD_TRY(RecoverPublication(publication));
  }
  return Ok();
}

Result<void> Volumes::RecoverPublication(PublicationRecord& publication) {
  bool certain = publication.state == PublicationState::kUnpublishing;
  if (publication.state == PublicationState::kPublished) {
    MOUNTD_ASSIGN(const std::optional<VolumeRecord> volume,
                  store_.GetVolume(publication.key));
    if (volume) {
      // A file system that does not answer must not keep mountd from starting.
      const Result<exec::MountState> state = executor_.InspectVolumeDir(
          PublishDir(*volume, publication.allocation));
      certain = state && state->exists != 0 &&
                state->mount_id == publication.mount_id;
    }
  }
  return certain ? Ok() : MarkUncertain(publication);
}

Result<void> Volumes::MarkUncertain(PublicationRecord publication) {
  publication.state = PublicationState::kUncertain;
  return store_.SetPublicationState(publication);
}

Result<std::vector<PublicationRecord>> Volumes::Of(
    const std::string& allocation) {
  return store_.PublicationsOf(allocation);
}

Result<std::optional<PublishedVolume>> Volumes::Get(
    const std::string& allocation, const std::string& alias) {
  MOUNTD_ASSIGN(const std::optional<PublicationRecord> found,
                store_.GetPublication(allocation, alias));
  if (!found) {
    return std::optional<PublishedVolume>();
  }
  MOUNTD_ASSIGN(const std::optional<VolumeRecord> volume,
                store_.GetVolume(found->key));
  if (!volume) {
    return std::optional<PublishedVolume>();
  }
  return std::optional<PublishedVolume>(ResultOf(*found, volume->plugin));
}

Result<KeyedLocks::Guard> Volumes::LockUnused(const std::string& plugin,
                                              const std::string& volume_id) {
  const VolumeKey key = VolumeKey::Derive(plugin, volume_id);
  KeyedLocks::Guard guard = volumes_.Lock(key.str());
  MOUNTD_ASSIGN(const std::optional<VolumeRecord> volume,
                store_.GetVolume(key));
  if (volume) {
    return MakeError(Code::kBusy, "detach", "volume " + key.str(),
                     "is in use on this node");
  }
  return guard;
}

// ---- The way up ----

Result<void> Volumes::CheckCompatible(const VolumeRecord& volume,
                                      const PublishSpec& spec) {
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> users,
                store_.UsersOf(volume.key));
  // Whoever is a user was compatible when it became one, and still is after
  // readers have joined it.
  const bool joins =
      !users.empty() &&
      std::none_of(users.begin(), users.end(), [&](const auto& user) {
        return user.allocation == spec.allocation;
      });
  const bool same_access =
      volume.access_mode == static_cast<int>(spec.capability.access_mode);
  const std::string object = Described(spec.allocation, spec.alias);
  if (volume.uid != spec.uid) {
    return MakeError(Code::kPermissionDenied, "publish", object,
                     "is staged for another user");
  }
  if (!same_access || volume.capability_digest != DigestOf(spec.capability)) {
    return MakeError(Code::kFailedPrecondition, "publish", object,
                     "is staged with another access mode, file system or "
                     "mount flags");
  }
  if (joins && !spec.read_only &&
      !WritersMayShare(spec.capability.access_mode)) {
    return MakeError(Code::kFailedPrecondition, "publish", object,
                     "is in use, and its access mode allows one writer");
  }
  return Ok();
}

Result<PublishedVolume> Volumes::Publish(const PublishSpec& spec,
                                         const UniqueFd& secrets,
                                         const CancelToken& cancelled) {
  const std::string object = Described(spec.allocation, spec.alias);
  if (IsReaderMode(spec.capability.access_mode) && !spec.read_only) {
    return MakeError(Code::kInvalidArgument, "publish", object,
                     "a reader-only access mode needs read_only");
  }
  const VolumeKey key = VolumeKey::Derive(spec.plugin, spec.volume_id);
  const KeyedLocks::Guard guard = volumes_.Lock(key.str());

  MOUNTD_ASSIGN(const std::optional<PublicationRecord> known,
                store_.GetPublication(spec.allocation, spec.alias));
  if (known && (known->key != key || known->read_only != spec.read_only)) {
    return MakeError(Code::kAlreadyExists, "publish", object,
                     "is another volume, or published otherwise");
  }
  if (known && known->state == PublicationState::kUnpublishing) {
    return MakeError(Code::kFailedPrecondition, "publish", object,
                     "is being unpublished");
  }
  MOUNTD_ASSIGN(const std::optional<VolumeRecord> staged,
                store_.GetVolume(key));
  if (staged) {
    MOUNTD_TRY(CheckCompatible(*staged, spec));
  }
  if (known && known->state == PublicationState::kPublished) {
    return ResultOf(*known, spec.plugin);
  }
  MOUNTD_ASSIGN(Plugins::Session session, plugins_.Use(spec.plugin));

  Call call{
      spec, secrets, cancelled, {}, {}, std::move(session), known.has_value()};
  if (staged) {
    call.volume = *staged;
  } else {
    call.volume = {key,
                   spec.plugin,
                   spec.volume_id,
                   VolumeState::kStaging,
                   static_cast<int>(spec.capability.access_mode),
                   spec.capability.fs_type,
                   DigestOf(spec.capability),
                   spec.publish_context,
                   spec.volume_context,
                   spec.uid};
  }
  call.publication = {key,
                      spec.allocation,
                      spec.alias,
                      spec.read_only,
                      PublicationState::kPublishing,
                      0};
  if (!known) {
    MOUNTD_TRY(store_.AddPublication(call.volume, call.publication));
  }
  if (call.volume.state != VolumeState::kStaged) {
    MOUNTD_TRY(Stage(call));
  }
  MOUNTD_TRY(PublishStaged(call));
  return ResultOf(call.publication, spec.plugin);
}

Result<void> Volumes::Stage(Call& call) {
  const bool stages = call.session.status.stages();
  if (Result<exec::MountState> prepared =
          executor_.PrepareVolumeDir(StagingDir(call.volume));
      !prepared) {
    IgnoreBecauseBestEffort(AbandonPublication(call));
    return std::move(prepared).error();
  }
  if (stages) {
    const StageRequest request{call.spec.volume_id, call.spec.publish_context,
                               PluginViewPath(call.session.status.record,
                                              StagingPart(call.volume.key)),
                               call.spec.capability, call.spec.volume_context};
    RpcResult<void> outcome = RetryUntilFinal(
        timeouts_.rpc, call.cancelled, [&](Clock::time_point deadline) {
          return client_.NodeStageVolume(call.session.channel, request,
                                         call.secrets, deadline);
        });
    if (!outcome) {
      Error error = ToError(outcome.error(), "NodeStageVolume",
                            Described(call.spec.allocation, call.spec.alias));
      if (outcome.error().IsFinal()) {
        IgnoreBecauseBestEffort(AbandonPublication(call));
      } else {
        MOUNTD_TRY(
            store_.SetVolumeState(call.volume.key, VolumeState::kUncertain));
        MOUNTD_TRY(MarkUncertain(call.publication));
      }
      return error;
    }
  }
  call.volume.state = VolumeState::kStaged;
  return store_.SetVolumeState(call.volume.key, VolumeState::kStaged);
}

Result<void> Volumes::PublishStaged(Call& call) {
  const exec::VolumeDirPlan dir = PublishDir(call.volume, call.spec.allocation);
  const PluginRecord& plugin = call.session.status.record;
  const PublishRequest request{
      call.spec.volume_id,
      call.spec.publish_context,
      call.session.status.stages()
          ? PluginViewPath(plugin, StagingPart(call.volume.key))
          : std::string(),
      PluginViewPath(plugin,
                     PublishPart(call.volume.key, call.spec.allocation)),
      call.spec.capability,
      call.spec.read_only,
      call.spec.volume_context};
  const std::string object = Described(call.spec.allocation, call.spec.alias);
  if (Result<exec::MountState> prepared = executor_.PrepareVolumeDir(dir);
      !prepared) {
    IgnoreBecauseBestEffort(AbandonPublication(call));
    return std::move(prepared).error();
  }
  RpcResult<void> outcome = RetryUntilFinal(
      timeouts_.rpc, call.cancelled, [&](Clock::time_point deadline) {
        return client_.NodePublishVolume(call.session.channel, request,
                                         call.secrets, deadline);
      });
  if (!outcome && outcome.error().IsFinal()) {
    IgnoreBecauseBestEffort(AbandonPublication(call));
    return ToError(outcome.error(), "NodePublishVolume", object);
  }
  if (!outcome) {
    MOUNTD_TRY(MarkUncertain(call.publication));
    return ToError(outcome.error(), "NodePublishVolume", object);
  }
  // The plugin's word is not enough: something has to be there.
  const Result<exec::MountState> state = executor_.InspectVolumeDir(dir);
  if (!state || state->exists == 0) {
    MOUNTD_TRY(MarkUncertain(call.publication));
    return !state ? state.error()
                  : MakeError(Code::kInternal, "NodePublishVolume", object,
                              "the plugin answered OK and made nothing");
  }
  call.publication.mount_id = state->mount_id;
  call.publication.state = PublicationState::kPublished;
  return store_.SetPublicationState(call.publication);
}

// After a final failure: what is to be undone is ours, the directories and the
// user's row, and the staging if nobody else has it. What cannot be undone now
// is uncertain: the next publish or the release goes on. So is one that an
// earlier attempt may have published: tasks may still have mounts of it.
Result<void> Volumes::AbandonPublication(Call& call) {
  if (call.known) {
    return MarkUncertain(call.publication);
  }
  const auto undo = [&]() -> Result<void> {
    MOUNTD_TRY(executor_.RemoveVolumeDir(
        PublishDir(call.volume, call.publication.allocation)));
    return DropUser(call.publication, call.volume);
  };
  Result<void> undone = undo();
  if (!undone) {
    MOUNTD_TRY(MarkUncertain(call.publication));
  }
  return undone;
}

// ---- The way down ----

Result<void> Volumes::Unpublish(const std::string& allocation,
                                const std::string& alias) {
  MOUNTD_ASSIGN(const std::optional<PublicationRecord> found,
                store_.GetPublication(allocation, alias));
  if (!found) {
    return Ok();
  }
  const KeyedLocks::Guard guard = volumes_.Lock(found->key.str());
  MOUNTD_ASSIGN(const std::optional<VolumeRecord> volume,
                store_.GetVolume(found->key));
  if (!volume) {
    return MakeError(Code::kInternal, "unpublish", Described(allocation, alias),
                     "has no volume record");
  }
  MOUNTD_TRY(UnpublishOne(*found, *volume));
  return DropUser(*found, *volume);
}

Result<void> Volumes::UnpublishOne(PublicationRecord publication,
                                   const VolumeRecord& volume) {
  publication.state = PublicationState::kUnpublishing;
  MOUNTD_TRY(store_.SetPublicationState(publication));
  MOUNTD_ASSIGN(const Plugins::Session session, plugins_.Use(volume.plugin));
  const std::string target = PluginViewPath(
      session.status.record, PublishPart(volume.key, publication.allocation));
  const RpcResult<void> outcome =
      RetryUntilFinal(timeouts_.rpc, nullptr, [&](Clock::time_point deadline) {
        return client_.NodeUnpublishVolume(session.channel, volume.volume_id,
                                           target, deadline);
      });
  if (!outcome && outcome.error().code != RpcCode::kNotFound) {
    return ToError(outcome.error(), "NodeUnpublishVolume",
                   Described(publication.allocation, publication.alias));
  }
  // Refused as Busy if the plugin left its mount in place.
  return executor_.RemoveVolumeDir(PublishDir(volume, publication.allocation));
}

// Takes the user's row away, and with the last one the staging. The row goes
// last: until then the release is not over, and no receipt is given.
Result<void> Volumes::DropUser(const PublicationRecord& publication,
                               const VolumeRecord& volume) {
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> users,
                store_.UsersOf(volume.key));
  const bool last =
      std::all_of(users.begin(), users.end(), [&](const auto& user) {
        return user.allocation == publication.allocation;
      });
  if (last) {
    MOUNTD_TRY(Unstage(volume));
  }
  return store_.RemovePublication(publication, last);
}

Result<void> Volumes::Unstage(const VolumeRecord& volume) {
  MOUNTD_ASSIGN(const Plugins::Session session, plugins_.Use(volume.plugin));
  // Also after a stage that failed for good: the plugin may have attached
  // something before it did, and an unstage of nothing is OK (CSI spec).
  if (session.status.stages()) {
    MOUNTD_TRY(store_.SetVolumeState(volume.key, VolumeState::kUnstaging));
    const std::string path =
        PluginViewPath(session.status.record, StagingPart(volume.key));
    const RpcResult<void> outcome = RetryUntilFinal(
        timeouts_.rpc, nullptr, [&](Clock::time_point deadline) {
          return client_.NodeUnstageVolume(session.channel, volume.volume_id,
                                           path, deadline);
        });
    if (!outcome && outcome.error().code != RpcCode::kNotFound) {
      return ToError(outcome.error(), "NodeUnstageVolume",
                     "a volume of plugin " + volume.plugin);
    }
  }
  return executor_.RemoveVolumeDir(StagingDir(volume));
}

}  // namespace mountd::csi
