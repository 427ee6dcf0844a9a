// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/allocation_recovery.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <string>

#include "mountd/plan/wire.h"
#include "mountd/service/unchecked_mounts.h"

namespace mountd {

// Returns the owner of an allocation without a record: the user whom its
// directory lets pass, because root's executor set that. The directories of old
// releases, which had no access lists, let a group pass instead. For these it
// returns the user that the records of the allocation's mounts name, or else
// root.
Result<std::uint32_t> AllocationRecovery::OwnerOf(
    const exec::FoundTarget& found) {
  if (found.uid != 0) {
    return found.uid;
  }
  MOUNTD_ASSIGN(
      const std::vector<MountRecord> mounts,
      parts_.boot.mounts.MountsOf(exec::Text(found.target.allocation)));
  const std::uint32_t uid = mounts.empty() ? 0 : mounts.front().uid;
  const bool same =
      std::all_of(mounts.begin(), mounts.end(),
                  [uid](const MountRecord& mount) { return mount.uid == uid; });
  return same ? uid : 0;
}

// Rebuilds a lost store from the other store and from the directories and
// mounts that exist. If no record names an owner, root becomes the owner,
// because no user may get an object that may belong to another user.
Result<void> AllocationRecovery::RecordFound() {
  MOUNTD_ASSIGN(const std::vector<exec::FoundTarget> all,
                parts_.executor.ListTargets());
  for (const exec::FoundTarget& found : all) {
    const std::string id = exec::Text(found.target.allocation);
    MOUNTD_ASSIGN(std::optional<AllocationRecord> owner,
                  parts_.state.allocations.GetAllocation(id));
    if (!owner) {
      MOUNTD_ASSIGN(const std::uint32_t uid, OwnerOf(found));
      owner.emplace(AllocationRecord{id, uid, /*gid=*/0, "",
                                     AllocationState::kPrepared, 0});
      // The lease of the allocation is lost, too, and the allocation may have
      // needed it. So if the user has leases, a lease must be acquired again
      // before the next volume is staged.
      MOUNTD_ASSIGN(owner->lease_required,
                    parts_.boot.lease_deadlines.HasAny(uid));
      spdlog::warn(
          "recovery: allocation {} has no record; mountd keeps it for its "
          "owner, uid {}",
          id, uid);
      if (const auto added = parts_.state.allocations.AddAllocation(*owner);
          !added) {
        // Skip this allocation, because one allocation must not keep mountd
        // from serving all others.
        spdlog::error("recovery: {}", added.error().Message());
        continue;
      }
    }
    MOUNTD_TRY(parts_.mounts.RecordFound(found, owner->uid));
  }
  return RecordGroups(all);
}

// Copies the groups of the directories into the records. The groups differ if a
// call was cut off, if the store was lost, and after a downgrade to a release
// whose store has no group.
Result<void> AllocationRecovery::RecordGroups(
    const std::vector<exec::FoundTarget>& all) {
  std::map<std::string, std::uint32_t> groups;
  for (const exec::FoundTarget& found : all) {
    groups[exec::Text(found.target.allocation)] = found.group;
  }
  MOUNTD_ASSIGN(const std::vector<AllocationRecord> records,
                parts_.state.allocations.ListAllocations());
  for (const AllocationRecord& record : records) {
    const std::uint32_t group = groups[record.id];
    if (group == record.group) {
      continue;
    }
    if (const auto set =
            parts_.state.allocations.SetAllocationGroup(record.id, group);
        !set) {
      spdlog::warn("recovery: {}", set.error().Message());
    }
  }
  return Ok();
}

// Records that tasks may have a copy of a mount whose making was cut off,
// because Mounts::Recover removes such a mount without looking for its copies.
Result<void> AllocationRecovery::NoteCutOff(const AllocationRecord& record) {
  MOUNTD_ASSIGN(std::vector<MountRecord> mounts,
                parts_.boot.mounts.MountsOf(record.id));
  std::erase_if(mounts, [](const MountRecord& mount) {
    return mount.state != MountRecordState::kAttaching;
  });
  return NoteUnchecked(parts_, record, mounts);
}

Result<void> AllocationRecovery::Recover() {
  MOUNTD_TRY(RecordFound());
  MOUNTD_ASSIGN(const std::vector<AllocationRecord> allocations,
                parts_.state.allocations.ListAllocations());
  for (const AllocationRecord& record : allocations) {
    MOUNTD_TRY(NoteCutOff(record));
    if (record.state != AllocationState::kPrepared) {
      continue;
    }
    if (const auto made = parts_.executor.PrepareAllocation(PlanOf(record));
        !made) {
      // A broken directory must not keep mountd from starting. The next
      // PrepareAllocation returns the same error.
      spdlog::warn("recovery: {}", made.error().Message());
    }
    if (const auto made = parts_.mounts.RecoverInboxes(record.id); !made) {
      spdlog::warn("recovery: {}", made.error().Message());
    }
  }
  return Ok();
}

}  // namespace mountd
