// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/node/volumes.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <utility>

#include "csi-node/node/volume_capability.h"
#include "csi-node/node/volume_paths.h"
#include "csi-node/node/volume_requests.h"
#include "mountd/base/current_user.h"

namespace mountd::csi {
namespace {

std::string Described(const PublishSpec& spec) {
  return csi::Described(spec.allocation, spec.alias);
}

std::uint32_t NeedsOf(const VolumeCapability& capability,
                      const UniqueFd& secrets) {
  return (secrets.valid() ? kNeedsSecrets : 0U) |
         (capability.mount_flags.empty() ? 0U : kNeedsMountFlags);
}

VolumeRecord RecordOf(const VolumeKey& key, const PublishSpec& spec,
                      const UniqueFd& secrets) {
  VolumeRecord record;
  record.key = key;
  record.plugin = spec.plugin;
  record.volume_id = spec.volume_id;
  record.access_mode = static_cast<int>(spec.capability.access_mode);
  record.fs_type = spec.capability.fs_type;
  record.capability_digest = DigestOf(spec.capability);
  record.publish_context = spec.publish_context;
  record.volume_context = spec.volume_context;
  record.uid = spec.uid;
  record.block = spec.capability.block;
  record.volume_mount_group = spec.capability.volume_mount_group;
  record.needs = NeedsOf(spec.capability, secrets);
  return record;
}

// Checks that the publication of this name is of the same volume and access,
// and is not being unpublished.
Result<void> CheckKnown(const PublicationRecord& known, const VolumeKey& key,
                        const PublishSpec& spec) {
  if (known.key != key || known.read_only != spec.read_only) {
    return MakeError(
        Code::kAlreadyExists, "publish", Described(spec),
        "is another volume, or is already published with other options");
  }
  if (known.state == PublicationState::kUnpublishing) {
    return MakeError(Code::kFailedPrecondition, "publish", Described(spec),
                     "is being unpublished; publish it again after that");
  }
  return Ok();
}

}  // namespace

std::string DeviceRuleOf(const PublishedVolume& volume) {
  const auto device = static_cast<dev_t>(volume.record.device);
  return "b " + std::to_string(major(device)) + ":" +
         std::to_string(minor(device)) + (volume.read_only ? " r" : " rwm");
}

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

Volumes::Volumes(const Config& config, exec::PluginExecutor& executor,
                 exec::TaskExecutor& searches, CsiClient& client,
                 Plugins& plugins, store::StateStore& store,
                 VolumeEvents events)
    : config_(config),
      executor_(executor),
      searches_(searches),
      client_(client),
      plugins_(plugins),
      store_(store),
      events_(std::move(events)),
      slots_(config.limits.rpcs_per_plugin) {}

Result<void> Volumes::MarkUncertain(PublicationRecord publication) {
  publication.state = PublicationState::kUncertain;
  return store_.volumes.SetPublicationState(publication);
}

Result<std::vector<PublicationRecord>> Volumes::Of(
    const std::string& allocation) {
  return store_.volumes.PublicationsOf(allocation);
}

Result<std::optional<PublishedVolume>> Volumes::Get(
    const std::string& allocation, const std::string& alias) {
  MOUNTD_ASSIGN(const std::optional<PublicationRecord> found,
                store_.volumes.GetPublication(allocation, alias));
  if (!found) {
    return std::optional<PublishedVolume>();
  }
  MOUNTD_ASSIGN(const std::optional<VolumeRecord> volume,
                store_.volumes.GetVolume(found->key));
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
                store_.volumes.GetVolume(key));
  if (volume) {
    return MakeError(Code::kBusy, "detach", "volume " + key.str(),
                     "is still in use on this node; unpublish it first");
  }
  return guard;
}

Result<void> Volumes::CheckCompatible(const VolumeRecord& volume,
                                      const PublishSpec& spec) {
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> users,
                store_.volumes.UsersOf(volume.key));
  // A user was compatible when it joined, and stays so when readers join later.
  const bool joins =
      !users.empty() &&
      std::none_of(users.begin(), users.end(), [&](const auto& user) {
        return user.allocation == spec.allocation;
      });
  const std::string object = Described(spec);
  if (volume.uid != spec.uid) {
    return MakeError(Code::kPermissionDenied, "publish", object,
                     "is already staged for another user");
  }
  if (volume.block != spec.capability.block) {
    return MakeError(Code::kFailedPrecondition, "publish", object,
                     "is already staged with another attachment mode");
  }
  if (volume.access_mode != static_cast<int>(spec.capability.access_mode) ||
      volume.capability_digest != DigestOf(spec.capability)) {
    return MakeError(Code::kFailedPrecondition, "publish", object,
                     "is already staged with another access mode, file system, "
                     "mount group or mount flags");
  }
  if (joins && !spec.read_only &&
      !WritersMayShare(spec.capability.access_mode)) {
    return MakeError(Code::kFailedPrecondition, "publish", object,
                     "is in use, and its access mode allows only one writer");
  }
  return Ok();
}

Result<PublishedVolume> Volumes::Publish(const PublishSpec& spec,
                                         const UniqueFd& secrets,
                                         const CancelToken& cancelled,
                                         const Progress& progress) {
  const VolumeKey key = VolumeKey::Derive(spec.plugin, spec.volume_id);
  const KeyedLocks::Guard guard = LockVolume(key, progress);
  return PublishLocked(spec, secrets, cancelled, progress);
}

// Reports the wait, because it takes as long as the work of the lock's holder.
KeyedLocks::Guard Volumes::LockVolume(const VolumeKey& key,
                                      const Progress& progress) {
  progress.At(Step::kVolume);
  KeyedLocks::Guard guard = volumes_.Lock(key.str());
  progress.At(Step::kWork);
  return guard;
}

// Waits for the first attempt, so that a running plugin does not count as away
// only because mountd has just started.
void Volumes::AwaitPlugin(const std::string& plugin, const Progress& progress) {
  progress.At(Step::kPlugin);
  plugins_.AwaitFirstAttempt(plugin);
  progress.At(Step::kWork);
}

Result<PublishedVolume> Volumes::PublishLocked(const PublishSpec& spec,
                                               const UniqueFd& secrets,
                                               const CancelToken& cancelled,
                                               const Progress& progress) {
  const std::string object = Described(spec);
  const VolumeKey key = VolumeKey::Derive(spec.plugin, spec.volume_id);
  MOUNTD_ASSIGN(const std::optional<PublicationRecord> known,
                store_.volumes.GetPublication(spec.allocation, spec.alias));
  if (known) {
    MOUNTD_TRY(CheckKnown(*known, key, spec));
  }
  MOUNTD_ASSIGN(const std::optional<VolumeRecord> there,
                store_.volumes.GetVolume(key));
  if (there) {
    MOUNTD_TRY(CheckCompatible(*there, spec));
  }
  if (known && known->state == PublicationState::kPublished) {
    return ResultOf(*known, spec.plugin);
  }
  AwaitPlugin(spec.plugin, progress);
  MOUNTD_TRY(CheckNotCancelled(cancelled, "publish", object));
  MOUNTD_ASSIGN(Plugins::Session session, plugins_.Use(spec.plugin));
  MOUNTD_TRY(CheckCapability(spec.capability, session.status.capabilities,
                             spec.read_only, object));
  if (there) {
    MOUNTD_TRY(FinishTargets(*there, progress));
  }

  Call call{spec,
            secrets,
            cancelled,
            progress,
            RecordOf(key, spec, secrets),
            {key, spec.allocation, spec.alias, spec.read_only},
            session.status.stages(),
            known.has_value(),
            there.has_value()};
  if (there) {
    call.volume.state = there->state;
  }
  if (known) {
    call.publication = *known;
  } else {
    // Writes the intent of volume and publication before the first RPC.
    MOUNTD_TRY(store_.volumes.AddPublication(call.volume, call.publication));
  }
  if (call.volume.state != VolumeState::kStaged) {
    MOUNTD_TRY(Stage(call));
  }
  MOUNTD_TRY(PublishStaged(call));
  Drop(spec.allocation, spec.alias);
  return ResultOf(call.publication, spec.plugin);
}

// Returns an error for a call whose effect is not known. Keeps the arguments,
// because the next call, or Settle, has to find out.
Error Volumes::EndUncertain(Call& call, const RpcError& last, const char* rpc) {
  Error error = ToError(last, rpc, Described(call.spec));
  if (IsCancelled(call.cancelled)) {
    error.code = Code::kAborted;
    error.detail = "was cancelled after " + error.detail;
  }
  error.detail += "; the outcome is unknown, so call again";
  if (const Result<void> marked = MarkUncertain(call.publication); !marked) {
    return marked.error();
  }
  Keep(call);
  return error;
}

Result<void> Volumes::Stage(Call& call) {
  if (Result<exec::MountState> prepared =
          executor_.PrepareVolumeDir(StagingDir(call.volume));
      !prepared) {
    // The caller gets the first error.
    IgnoreBecauseBestEffort(AbandonPublication(call));
    return std::move(prepared).error();
  }
  if (call.stages) {
    // The intent of a new volume is written already.
    if (call.there) {
      call.volume.state = VolumeState::kStaging;
      MOUNTD_TRY(store_.volumes.SetVolumeStaging(call.volume));
    }
    const RpcResult<void> outcome = CallNode<void>(
        {call.spec.plugin, Step::kStage, call.cancelled, call.progress},
        [&](const Plugins::Session& session, Clock::time_point deadline) {
          return client_.NodeStageVolume(
              session.channel,
              StageRequestOf(call.volume, call.spec.capability,
                             session.status.record),
              call.secrets, deadline);
        });
    if (!outcome && !outcome.error().IsFinal()) {
      MOUNTD_TRY(store_.volumes.SetVolumeState(call.volume.key,
                                               VolumeState::kUncertain));
      return EndUncertain(call, outcome.error(), "NodeStageVolume");
    }
    if (!outcome) {
      // If this fails, the publication is recorded as uncertain. The caller
      // gets the first error.
      IgnoreBecauseBestEffort(AbandonPublication(call));
      return ToError(outcome.error(), "NodeStageVolume", Described(call.spec));
    }
  }
  // Believes the plugin, because many plugins mount nothing at the staging
  // path.
  call.volume.state = VolumeState::kStaged;
  return store_.volumes.SetVolumeStaging(call.volume);
}

Result<void> Volumes::PublishStaged(Call& call) {
  const exec::VolumeDirPlan dir = PublishDir(call.volume, call.spec.allocation);
  if (Result<exec::MountState> prepared = executor_.PrepareVolumeDir(dir);
      !prepared) {
    // The caller gets the first error.
    IgnoreBecauseBestEffort(AbandonPublication(call));
    return std::move(prepared).error();
  }
  const RpcResult<void> outcome = CallNode<void>(
      {call.spec.plugin, Step::kPublish, call.cancelled, call.progress},
      [&](const Plugins::Session& session, Clock::time_point deadline) {
        return client_.NodePublishVolume(
            session.channel,
            PublishRequestOf(call.volume, call.publication,
                             call.spec.capability, session),
            call.secrets, deadline);
      });
  if (!outcome && outcome.error().IsFinal()) {
    IgnoreBecauseBestEffort(AbandonPublication(call));
    return ToError(outcome.error(), "NodePublishVolume", Described(call.spec));
  }
  if (!outcome) {
    return EndUncertain(call, outcome.error(), "NodePublishVolume");
  }
  return CheckPublished(call, dir);
}

// Does not believe the plugin: the target must have a mount of the right kind.
// If it has not, marks the publication uncertain, so that the next publish or
// the release resolves it.
Result<void> Volumes::CheckPublished(Call& call,
                                     const exec::VolumeDirPlan& dir) {
  const Result<exec::MountState> state = executor_.InspectVolumeDir(dir);
  const Result<Plugins::Session> session = plugins_.Use(call.spec.plugin);
  const bool bare_allowed = session && session->status.record.bare_directories;
  const std::string fault =
      state ? FaultOfPublished(*state, call.spec.capability.block, bare_allowed)
            : state.error().Message();
  if (!fault.empty()) {
    MOUNTD_TRY(MarkUncertain(call.publication));
    return state ? MakeError(Code::kInternal, "NodePublishVolume",
                             Described(call.spec),
                             "the plugin answered OK, but " + fault)
                 : state.error();
  }
  call.publication.mount_id = state->mount_id;
  call.publication.device = state->block_device;
  call.publication.state = PublicationState::kPublished;
  call.publication.was_published = true;
  return store_.volumes.SetPublicationState(call.publication);
}

// Undoes a publish after a final failure: removes the directories and the
// user's row, and unstages if the volume has no other user. If the undo fails,
// marks the publication uncertain, and the next publish or the release
// continues the undo. A publication that was published before becomes uncertain
// as well, because tasks may still have mounts of it.
Result<void> Volumes::AbandonPublication(Call& call) {
  if (call.publication.was_published) {
    return MarkUncertain(call.publication);
  }
  const auto undo = [&]() -> Result<void> {
    if (call.known) {
      MOUNTD_TRY(UnpublishOne(call.publication, call.volume, call.progress));
    } else {
      MOUNTD_TRY(executor_.RemoveVolumeDir(
          PublishDir(call.volume, call.publication.allocation)));
    }
    return DropUser(call.publication, call.volume, call.progress);
  };
  Result<void> undone = undo();
  if (!undone) {
    MOUNTD_TRY(MarkUncertain(call.publication));
  }
  Drop(call.spec.allocation, call.spec.alias);
  return undone;
}

// ---- Uncertain outcomes ----

void Volumes::Keep(const Call& call) {
  Kept kept{call.spec, UniqueFd()};
  if (call.secrets.valid()) {
    // A duplicate, because the call closes its own fd at its end. Not below 3,
    // so that it never becomes a standard descriptor.
    kept.secrets.reset(fcntl(call.secrets.get(), F_DUPFD_CLOEXEC, 3));
    if (!kept.secrets.valid()) {
      return;  // the next call brings the secrets
    }
  }
  {
    const std::lock_guard lock(kept_mutex_);
    kept_.insert_or_assign({call.spec.allocation, call.spec.alias},
                           std::move(kept));
  }
  events_.on_unsettled();
}

bool Volumes::IsKept(const std::string& allocation,
                     const std::string& alias) const {
  const std::lock_guard lock(kept_mutex_);
  return kept_.contains({allocation, alias});
}

void Volumes::Drop(const std::string& allocation, const std::string& alias) {
  const std::lock_guard lock(kept_mutex_);
  kept_.erase({allocation, alias});
}

std::vector<Volumes::Unsettled> Volumes::ListUnsettled() const {
  const std::lock_guard lock(kept_mutex_);
  std::vector<Unsettled> all;
  for (const auto& [user, kept] : kept_) {
    all.push_back({user.first, user.second});
  }
  return all;
}

Result<void> Volumes::Settle(const Unsettled& one) {
  Kept kept;
  {
    const std::lock_guard lock(kept_mutex_);
    const auto found = kept_.find({one.allocation, one.alias});
    if (found == kept_.end()) {
      return Ok();
    }
    kept.spec = found->second.spec;
    if (found->second.secrets.valid()) {
      kept.secrets.reset(
          fcntl(found->second.secrets.get(), F_DUPFD_CLOEXEC, 3));
      if (!kept.secrets.valid()) {
        return ErrnoError(errno, "dup", Described(one.allocation, one.alias));
      }
    }
  }
  const auto fenced = [&] {
    return MakeError(Code::kFailedPrecondition, "publish",
                     Described(one.allocation, one.alias),
                     "no lease of its allocation is held; AcquireLease lets "
                     "mountd go on");
  };
  if (!events_.may_restore(one.allocation)) {
    return fenced();
  }
  const CurrentUser user(kept.spec.uid);
  const Result<PublishedVolume> published =
      Publish(kept.spec, kept.secrets, nullptr);
  if (published && !events_.may_restore(one.allocation)) {
    MOUNTD_TRY(TakeBack(one));
    return fenced();
  }
  return published || !IsKept(one.allocation, one.alias)
             ? Ok()
             : Result<void>(published.error());
}

}  // namespace mountd::csi
