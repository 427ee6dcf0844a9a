// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Unpublishes and unstages volumes, and makes the calls that are pending
// because a plugin was away.
#include <algorithm>
#include <chrono>
#include <utility>

#include "csi-node/node/volume_paths.h"
#include "csi-node/node/volume_requests.h"
#include "mountd/base/wall_clock.h"

namespace mountd::csi {
namespace {

// NOT_FOUND for an unpublish or unstage means that there is nothing to undo.
bool IsDone(const RpcResult<void>& outcome) {
  return outcome || outcome.error().code == RpcCode::kNotFound;
}

}  // namespace

bool Volumes::IsAway(const std::string& plugin) const {
  return !plugins_.Use(plugin);
}

Result<void> Volumes::Unpublish(const std::string& allocation,
                                const std::string& alias,
                                const Progress& progress,
                                const Leaving& leaving) {
  MOUNTD_ASSIGN(const std::optional<PublicationRecord> seen,
                store_.volumes.GetPublication(allocation, alias));
  if (!seen) {
    return Ok();
  }
  const KeyedLocks::Guard guard = LockVolume(seen->key, progress);
  // Reads the record again, because the volume may have been restored, with
  // another mount, while this call waited for the lock.
  MOUNTD_ASSIGN(const std::optional<PublicationRecord> found,
                store_.volumes.GetPublication(allocation, alias));
  if (!found || found->key != seen->key) {
    return Ok();
  }
  MOUNTD_ASSIGN(const std::optional<VolumeRecord> volume,
                store_.volumes.GetVolume(found->key));
  if (!volume) {
    return MakeError(Code::kInternal, "unpublish", Described(allocation, alias),
                     "mountd has no record of its volume");
  }
  AwaitPlugin(volume->plugin, progress);
  PublicationRecord publication = *found;
  const Result<void> unused = CheckBefore(*volume, leaving, &publication);
  const auto goes_on = [&](const Result<void>& outcome) {
    return leaving.ignores_tasks && outcome.error().code == Code::kBusy;
  };
  if (!unused && !goes_on(unused)) {
    return unused;
  }
  // Settle must not publish the volume again. Writes the state before the RPC,
  // so that a restart continues the unpublish.
  Drop(allocation, alias);
  publication.state = PublicationState::kUnpublishing;
  MOUNTD_TRY(store_.volumes.SetPublicationState(publication));
  if (!unused) {
    return Depart(publication, *volume, Target::kKept, leaving.cgroup,
                  unused.error());
  }
  if (const Result<void> unpublished =
          UnpublishOne(publication, *volume, progress);
      !unpublished) {
    return IsAway(volume->plugin)
               ? Depart(publication, *volume, Target::kDetached, leaving.cgroup,
                        unpublished.error())
               : unpublished;
  }
  if (const Result<void> dropped =
          DropUser(publication, *volume, progress, leaving.cgroup);
      !dropped) {
    return IsAway(volume->plugin) || goes_on(dropped)
               ? Depart(publication, *volume, Target::kGone, leaving.cgroup,
                        dropped.error())
               : dropped;
  }
  return Ok();
}

// Busy if the plugin left its mount in place.
Result<void> Volumes::UnpublishOne(const PublicationRecord& publication,
                                   const VolumeRecord& volume,
                                   const Progress& progress) {
  MOUNTD_TRY(CallUnpublish(volume, publication.allocation, progress));
  return executor_.RemoveVolumeDir(PublishDir(volume, publication.allocation));
}

Result<void> Volumes::CallUnpublish(const VolumeRecord& volume,
                                    const std::string& allocation,
                                    const Progress& progress) {
  // Fails at once if the plugin is away, because CallNode would try until its
  // budget is over.
  if (IsAway(volume.plugin)) {
    return plugins_.Use(volume.plugin).error();
  }
  const RpcResult<void> outcome = CallNode<void>(
      {volume.plugin, Step::kUnpublish, nullptr, progress},
      [&](const Plugins::Session& session, Clock::time_point deadline) {
        return client_.NodeUnpublishVolume(
            session.channel, volume.volume_id,
            PluginViewPath(session.status.record,
                           PublishPart(volume.key, allocation)),
            deadline);
      });
  return IsDone(outcome)
             ? Ok()
             : Result<void>(ToError(outcome.error(), "NodeUnpublishVolume",
                                    "volume of " + allocation));
}

// Unstages if this user is the last one, then removes the user's row. The row
// is removed last, because mountd gives no receipt while the row exists.
Result<void> Volumes::DropUser(const PublicationRecord& publication,
                               const VolumeRecord& volume,
                               const Progress& progress, std::uint64_t cgroup) {
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> users,
                store_.volumes.UsersOf(volume.key));
  const bool last =
      std::all_of(users.begin(), users.end(), [&](const auto& user) {
        return user.allocation == publication.allocation;
      });
  if (last) {
    MOUNTD_TRY(FinishTargets(volume, progress));
    MOUNTD_TRY(Unstage(volume, progress));
    MOUNTD_TRY(CheckAfter(volume, publication.allocation,
                          publication.file_system, cgroup));
  }
  return store_.volumes.RemovePublication(publication, last);
}

Result<void> Volumes::Unstage(const VolumeRecord& volume,
                              const Progress& progress) {
  MOUNTD_ASSIGN(const Plugins::Session session, plugins_.Use(volume.plugin));
  // Unstages also after a stage that failed finally, because the plugin may
  // have attached something before it failed. An unstage of nothing is OK (CSI
  // spec).
  if (session.status.stages()) {
    MOUNTD_TRY(
        store_.volumes.SetVolumeState(volume.key, VolumeState::kUnstaging));
    MOUNTD_TRY(CallUnstage(volume, progress));
  }
  return executor_.RemoveVolumeDir(StagingDir(volume));
}

Result<void> Volumes::CallUnstage(const VolumeRecord& volume,
                                  const Progress& progress) {
  const RpcResult<void> outcome = CallNode<void>(
      {volume.plugin, Step::kUnstage, nullptr, progress},
      [&](const Plugins::Session& session, Clock::time_point deadline) {
        return client_.NodeUnstageVolume(
            session.channel, volume.volume_id,
            PluginViewPath(session.status.record, StagingPart(volume.key)),
            deadline);
      });
  return IsDone(outcome)
             ? Ok()
             : Result<void>(ToError(outcome.error(), "NodeUnstageVolume",
                                    "a volume of plugin " + volume.plugin));
}

// ---- While the plugin is away, or tasks have copies ----

// Detaches the plugin's mount for this allocation without the plugin, so that
// mountd can release the allocation. FinishDeparted calls the plugin later.
// Keeps the mount while tasks have copies, because the mount identifies their
// file system, and because the plugin must not detach a volume that tasks write
// to.
Result<void> Volumes::Depart(const PublicationRecord& publication,
                             const VolumeRecord& volume, Target target,
                             std::uint64_t cgroup, const Error& why) {
  if (target != Target::kKept) {
    exec::VolumeDirPlan directory = PublishDir(volume, publication.allocation);
    directory.detach = 1;
    MOUNTD_TRY(executor_.RemoveVolumeDir(directory));
  }
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> users,
                store_.volumes.UsersOf(volume.key));
  if (users.size() == 1) {
    MOUNTD_TRY(
        store_.volumes.SetVolumeState(volume.key, VolumeState::kUncertain));
  }
  OwedRecord owed;
  owed.kind = OwedKind::kUnstage;
  owed.object = volume.plugin + "/" + volume.volume_id;
  owed.uid = volume.uid;
  owed.reason = why.Message();
  owed.since_us = NowMicroseconds();
  MOUNTD_TRY(store_.volumes.DepartFromVolume(
      publication,
      {publication.key, publication.allocation, target != Target::kGone, cgroup,
       publication.file_system},
      owed));
  events_.on_owed();
  return Ok();
}

// Calls the plugin for the targets that were detached without it.
Result<void> Volumes::FinishTargets(const VolumeRecord& volume,
                                    const Progress& progress) {
  MOUNTD_ASSIGN(const std::vector<DepartedRecord> all,
                store_.volumes.DepartedFrom(volume.key));
  for (const DepartedRecord& departed : all) {
    MOUNTD_TRY(CheckDeparted(volume, departed));
    if (departed.target_left) {
      MOUNTD_TRY(CallUnpublish(volume, departed.allocation, progress));
      MOUNTD_TRY(
          executor_.RemoveVolumeDir(PublishDir(volume, departed.allocation)));
      MOUNTD_TRY(store_.volumes.SetTargetGone(departed));
    }
  }
  return Ok();
}

Result<void> Volumes::FinishDeparted(const std::string& plugin,
                                     const std::string& volume_id) {
  const VolumeKey key = VolumeKey::Derive(plugin, volume_id);
  const KeyedLocks::Guard guard = volumes_.Lock(key.str());
  MOUNTD_ASSIGN(const std::optional<VolumeRecord> volume,
                store_.volumes.GetVolume(key));
  if (!volume) {
    // Another call has removed the volume, so nothing is pending.
    return store_.owed.RemoveOwed(OwedKind::kUnstage, plugin + "/" + volume_id);
  }
  const Progress unseen;  // no caller waits for this
  MOUNTD_TRY(FinishTargets(*volume, unseen));
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> users,
                store_.volumes.UsersOf(key));
  if (users.empty()) {
    MOUNTD_ASSIGN(const std::vector<DepartedRecord> all,
                  store_.volumes.DepartedFrom(key));
    MOUNTD_TRY(Unstage(*volume, unseen));
    for (const DepartedRecord& departed : all) {
      MOUNTD_TRY(CheckAfter(*volume, departed.allocation, departed.file_system,
                            departed.cgroup));
    }
  }
  return store_.volumes.FinishDeparted(*volume, /*unstaged=*/users.empty());
}

}  // namespace mountd::csi
