// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Volumes after a restart. When mountd restarts, it compares its records with
// the mounts. When a plugin restarts, its mounts may have died with it.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "csi-node/node/volume_paths.h"
#include "csi-node/node/volume_requests.h"
#include "mountd/base/current_user.h"

namespace mountd::csi {
namespace {

bool IsAsRecorded(const exec::MountState& state,
                  const PublicationRecord& publication) {
  return state.exists != 0 && state.mount_id == publication.mount_id &&
         state.block_device == publication.device;
}

// True if the error says nothing about the volume. mountd then keeps the
// volume, because tasks would miss a healthy volume.
bool HasNobodyLooked(const Error& error) {
  return error.code == Code::kUnavailable ||
         error.code == Code::kResourceExhausted;
}

}  // namespace

Result<void> Volumes::Recover() {
  MOUNTD_ASSIGN(const std::vector<VolumeRecord> volumes,
                store_.volumes.ListVolumes());
  for (const VolumeRecord& volume : volumes) {
    if (volume.state != VolumeState::kStaged) {
      // An RPC was under way, so its outcome is not known.
      MOUNTD_TRY(
          store_.volumes.SetVolumeState(volume.key, VolumeState::kUncertain));
    }
  }
  MOUNTD_ASSIGN(std::vector<PublicationRecord> publications,
                store_.volumes.ListPublications());
  for (PublicationRecord& publication : publications) {
    MOUNTD_TRY(RecoverPublication(publication));
  }
  return Ok();
}

Result<void> Volumes::RecoverPublication(PublicationRecord& publication) {
  // The release or a retry continues an unpublish that was under way.
  bool certain = publication.state == PublicationState::kUnpublishing;
  if (publication.state == PublicationState::kPublished) {
    MOUNTD_ASSIGN(const std::optional<VolumeRecord> volume,
                  store_.volumes.GetVolume(publication.key));
    if (volume) {
      // Errors do not end the loop, because a file system that does not answer
      // must not keep mountd from starting.
      const Result<exec::MountState> state = executor_.InspectVolumeDir(
          PublishDir(*volume, publication.allocation));
      certain = state ? IsAsRecorded(*state, publication)
                      : HasNobodyLooked(state.error());
    }
  }
  return certain ? Ok() : MarkUncertain(publication);
}

// ---- Volumes that died with their plugin ----

// Tries again if the executor dies during the plan, because its death says
// nothing about the volume.
Result<exec::ProbeReply> Volumes::Probe(const exec::VolumeProbePlan& plan) {
  constexpr int kTries = 3;
  Result<exec::ProbeReply> probe = executor_.ProbeVolume(plan);
  for (int i = 1;
       i < kTries && !probe && probe.error().code == Code::kUnavailable; ++i) {
    probe = executor_.ProbeVolume(plan);
  }
  return probe;
}

struct Volumes::Look {
  std::vector<PublicationRecord> broken;
  std::string reason;  // "" if all of `broken` were uncertain before
};

Result<Volumes::Look> Volumes::LookAtUsers(const VolumeRecord& volume) {
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> users,
                store_.volumes.UsersOf(volume.key));
  Look look;
  for (const PublicationRecord& user : users) {
    if (user.state == PublicationState::kUnpublishing ||
        IsKept(user.allocation, user.alias)) {
      continue;  // Settle or a release works on it
    }
    if (user.state == PublicationState::kUncertain) {
      look.broken.push_back(user);
      continue;
    }
    const Result<exec::ProbeReply> probe =
        Probe({PublishDir(volume, user.allocation), user.mount_id});
    if (!probe && HasNobodyLooked(probe.error())) {
      continue;
    }
    if (!probe || probe->health != exec::MountHealth::kHealthy) {
      look.broken.push_back(user);
      look.reason =
          probe ? "its file system does not answer" : probe.error().Message();
    }
  }
  return look;
}

Result<Volumes::Restoration> Volumes::RestoreDead(const std::string& plugin) {
  MOUNTD_ASSIGN(const std::vector<VolumeRecord> volumes,
                store_.volumes.ListVolumes());
  Restoration all;
  for (const VolumeRecord& volume : volumes) {
    if (volume.plugin != plugin) {
      continue;
    }
    // A volume that cannot be restored does not keep others from it.
    Result<std::vector<PublicationRecord>> some = Restore(volume.key);
    if (some) {
      all.restored.insert(all.restored.end(), some->begin(), some->end());
    } else {
      all.complete = false;
      spdlog::warn("restore: volume {} of plugin {}: {}", volume.volume_id,
                   plugin, some.error().Message());
    }
  }
  return all;
}

Result<std::vector<PublicationRecord>> Volumes::Restore(const VolumeKey& key) {
  const KeyedLocks::Guard guard = volumes_.Lock(key.str());
  std::vector<PublicationRecord> none;
  MOUNTD_ASSIGN(std::optional<VolumeRecord> volume,
                store_.volumes.GetVolume(key));
  if (!volume) {
    return none;
  }
  const CurrentUser owner(volume->uid);
  MOUNTD_ASSIGN(const Look look, LookAtUsers(*volume));
  if (look.broken.empty()) {
    return none;
  }
  if (!look.reason.empty()) {
    events_.on_health(*volume, exec::MountHealth::kDead, look.reason);
  }
  // Writes this first, so that a restart in between publishes the volume again.
  for (const PublicationRecord& user : look.broken) {
    MOUNTD_TRY(MarkUncertain(user));
  }
  MOUNTD_TRY(TakeAway(*volume, look.broken));
  if (volume->needs != 0) {
    // mountd has neither the secrets nor the mount flags.
    for (const PublicationRecord& user : look.broken) {
      if (events_.may_restore(user.allocation)) {
        events_.on_secrets_needed(*volume, user);
      }
    }
    return none;
  }
  MOUNTD_ASSIGN(std::vector<PublicationRecord> restored,
                PublishAnew(*volume, look.broken));
  if (!restored.empty()) {
    events_.on_health(*volume, exec::MountHealth::kHealthy, "");
  }
  return restored;
}

// Removes the mounts that a dead server left, because a plugin that finds a
// mount at its path believes that it is published already.
Result<void> Volumes::TakeAway(const VolumeRecord& volume,
                               const std::vector<PublicationRecord>& users) {
  for (const PublicationRecord& user : users) {
    MOUNTD_TRY(UnpublishOne(user, volume, Progress()));
  }
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> all,
                store_.volumes.UsersOf(volume.key));
  // Another user needs this staging if the user's mount is alive, or if Settle
  // works on it. Any other uncertain user has no mount: mountd has removed the
  // mount or has still to publish it.
  const auto uses_staging = [&](const PublicationRecord& one) {
    return std::none_of(users.begin(), users.end(),
                        [&](const PublicationRecord& gone) {
                          return gone.allocation == one.allocation &&
                                 gone.alias == one.alias;
                        }) &&
           (one.state != PublicationState::kUncertain ||
            IsKept(one.allocation, one.alias));
  };
  if (std::any_of(all.begin(), all.end(), uses_staging)) {
    return Ok();
  }
  MOUNTD_TRY(
      store_.volumes.SetVolumeState(volume.key, VolumeState::kUncertain));
  return Unstage(volume, Progress());
}

Result<void> Volumes::TakeBack(const Unsettled& one) {
  MOUNTD_ASSIGN(const std::optional<PublicationRecord> seen,
                store_.volumes.GetPublication(one.allocation, one.alias));
  if (!seen) {
    return Ok();
  }
  const KeyedLocks::Guard guard = volumes_.Lock(seen->key.str());
  MOUNTD_ASSIGN(const std::optional<PublicationRecord> user,
                store_.volumes.GetPublication(one.allocation, one.alias));
  MOUNTD_ASSIGN(const std::optional<VolumeRecord> volume,
                store_.volumes.GetVolume(seen->key));
  if (!user || !volume || user->key != seen->key ||
      user->state == PublicationState::kUnpublishing) {
    return Ok();
  }
  Drop(one.allocation, one.alias);
  MOUNTD_TRY(MarkUncertain(*user));
  return TakeAway(*volume, {*user});
}

Result<std::vector<PublicationRecord>> Volumes::PublishAnew(
    const VolumeRecord& volume, const std::vector<PublicationRecord>& users) {
  std::vector<PublicationRecord> restored;
  for (const PublicationRecord& user : users) {
    if (!events_.may_restore(user.allocation)) {
      continue;
    }
    PublishSpec spec;
    spec.allocation = user.allocation;
    spec.alias = user.alias;
    spec.plugin = volume.plugin;
    spec.volume_id = volume.volume_id;
    spec.read_only = user.read_only;
    spec.capability = CapabilityOf(volume);
    spec.publish_context = volume.publish_context;
    spec.volume_context = volume.volume_context;
    spec.uid = volume.uid;
    MOUNTD_ASSIGN(PublishedVolume published,
                  PublishLocked(spec, UniqueFd(), nullptr, Progress()));
    if (!events_.may_restore(user.allocation)) {
      // The allocation was fenced meanwhile.
      MOUNTD_TRY(MarkUncertain(published.record));
      MOUNTD_TRY(TakeAway(volume, {published.record}));
      continue;
    }
    restored.push_back(std::move(published.record));
  }
  return restored;
}

}  // namespace mountd::csi
