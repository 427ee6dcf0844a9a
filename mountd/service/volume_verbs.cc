// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/volume_verbs.h"

#include <utility>

#include "mountd/base/current_user.h"

namespace mountd {

Result<csi::PublishedVolume> VolumeVerbs::PublishVolume(
    const CallContext& call, csi::PublishSpec spec, const UniqueFd& secrets) {
  MOUNTD_TRY(
      access_.PolicyFor(call).plugins().MayUsePlugin(call.caller, spec.plugin));
  MOUNTD_ASSIGN(const AllocationRecord owner,
                access_.FindPrepared(call, spec.allocation));
  MOUNTD_TRY(access_.leases().CheckHeld(owner));
  const Result<void> room = parts_.room.Check(
      "publish", "volume " + spec.allocation + "/" + spec.alias, spec.plugin);
  if (!room) {
    MOUNTD_ASSIGN(const std::optional<csi::PublishedVolume> known,
                  parts_.volumes.Get(spec.allocation, spec.alias));
    if (!known) {
      return room.error();
    }
  }
  spec.uid = owner.uid;
  MOUNTD_ASSIGN(
      const std::optional<PublicationRecord> before,
      parts_.state.volumes.GetPublication(spec.allocation, spec.alias));
  Result<csi::PublishedVolume> outcome =
      parts_.volumes.Publish(spec, secrets, call.cancelled, call.progress);
  if (Result<void> held = access_.leases().CheckHeld(owner); !held) {
    // The lease lapsed during the call. Unpublish also ends a publish whose
    // outcome is unknown; otherwise mountd would repeat it later.
    if (!before) {
      IgnoreBecauseBestEffort(
          teardowns_.Unpublish(owner, spec.alias, {OnTasks::kIgnore}));
    } else if (before->state == PublicationState::kUncertain) {
      // Only take the volume back, because tasks may have dead mounts of it and
      // these would keep it from being unpublished.
      IgnoreBecauseBestEffort(
          parts_.volumes.TakeBack({spec.allocation, spec.alias}));
    }
    return std::move(held).error();
  }
  MOUNTD_ASSIGN(csi::PublishedVolume published, std::move(outcome));
  // Tasks may have dead mounts of a volume that was published before.
  if (before && before->was_published &&
      before->state == PublicationState::kUncertain) {
    IgnoreBecauseBestEffort(RepairMountsOf(published.record));
  }
  return published;
}

Result<void> VolumeVerbs::UnpublishVolume(const CallContext& call,
                                          const Name& allocation,
                                          const Name& alias, OnTasks on_tasks) {
  MOUNTD_ASSIGN(const AllocationRecord record,
                access_.Find(call, allocation.str()));
  return teardowns_.Unpublish(record, alias.str(),
                              {on_tasks, call.progress, call.cancelled});
}

Result<std::vector<VolumeStatus>> VolumeVerbs::ListVolumes(
    const CallContext& call) {
  MOUNTD_ASSIGN(const std::vector<VolumeRecord> volumes,
                parts_.state.volumes.ListVolumes());
  std::vector<VolumeStatus> all;
  for (const VolumeRecord& volume : volumes) {
    VolumeStatus status{volume, {}, parts_.volumes.ConditionOf(volume.key)};
    MOUNTD_ASSIGN(const std::vector<PublicationRecord> users,
                  parts_.state.volumes.UsersOf(volume.key));
    for (const PublicationRecord& user : users) {
      MOUNTD_ASSIGN(const std::optional<AllocationRecord> owner,
                    parts_.state.allocations.GetAllocation(user.allocation));
      if (owner && access_.Sees(call, owner->uid)) {
        status.users.push_back(user);
      }
    }
    if (!status.users.empty() || access_.Sees(call, volume.uid)) {
      all.push_back(std::move(status));
    }
  }
  return all;
}

Result<std::int64_t> VolumeVerbs::ExpandVolume(
    const CallContext& call, const csi::Volumes::ExpandSpec& spec,
    const UniqueFd& secrets) {
  MOUNTD_ASSIGN(const AllocationRecord owner,
                access_.FindPrepared(call, spec.allocation));
  MOUNTD_ASSIGN(
      const std::int64_t size,
      parts_.volumes.Expand(spec, secrets, call.cancelled, call.progress));
  // Check again, because the lease may have lapsed during the call. The volume
  // keeps its new size, because a volume cannot shrink.
  MOUNTD_TRY(access_.leases().CheckUsable(owner));
  return size;
}

Result<csi::VolumeStats> VolumeVerbs::GetVolumeStats(const CallContext& call,
                                                     const Name& allocation,
                                                     const Name& alias) {
  MOUNTD_TRY(access_.Find(call, allocation.str()));
  return parts_.volumes.Stats(allocation.str(), alias.str());
}

Result<void> VolumeVerbs::RepairOne(const AllocationRecord& owner,
                                    const BindMountRequest& request) {
  MOUNTD_TRY(access_.leases().CheckUsable(owner));
  MOUNTD_TRY(parts_.mounts.Repair(request));
  return teardowns_.LoseIfLapsed(owner, request);
}

// Swaps the volume's mounts in inboxes. A mount that cannot be swapped stays
// dead, and so do tasks' own bind mounts. The signal MountHealth has notified
// the owner.
Result<void> VolumeVerbs::RepairMountsOf(const PublicationRecord& publication) {
  MOUNTD_ASSIGN(const std::optional<AllocationRecord> owner,
                parts_.state.allocations.GetAllocation(publication.allocation));
  if (!owner || owner->state != AllocationState::kPrepared ||
      !access_.leases().CheckUsable(*owner)) {
    return Ok();
  }
  const CurrentUser user(owner->uid);
  MOUNTD_ASSIGN(const std::vector<MountRecord> mounts,
                parts_.boot.mounts.MountsOf(publication.allocation));
  Result<void> outcome = Ok();
  for (const MountRecord& mount : mounts) {
    if (mount.wish.source_kind != exec::SourceKind::kPublishedVolume ||
        mount.wish.source != publication.alias ||
        mount.wish.target_kind != exec::TargetKind::kInbox) {
      continue;
    }
    BindMountRequest spec = RequestOf(mount);
    spec.uid = owner->uid;
    Result<void> repaired = admission_.AuthoriseForOwner(*owner, spec);
    if (repaired) {
      repaired = RepairOne(*owner, spec);
    }
    if (!repaired && outcome) {
      outcome = std::move(repaired);
    }
  }
  return outcome;
}

}  // namespace mountd
