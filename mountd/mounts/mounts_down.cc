// SPDX-License-Identifier: LGPL-2.1-or-later
#include <optional>
#include <utility>

#include "mountd/mounts/mounts.h"

namespace mountd {

// Undoes an Attach or a swap whose outcome may be unknown. Removes the mount at
// the target, then the record. On a failure the record stays as an intent.
Result<void> Mounts::UndoAttach(const MountRecord& record,
                                exec::UnmountMode mode) {
  MOUNTD_ASSIGN(const exec::MountState state,
                executor_.InspectTarget(TargetOf(record)));
  MOUNTD_TRY(executor_.Detach({TargetOf(record), state.mount_id, mode}));
  return Forget(record);
}

Result<void> Mounts::Forget(const MountRecord& record) {
  const auto remove = [&] { return store_.mounts.RemoveMount(record); };
  MOUNTD_TRY(of_users_.Removing(record.uid, [&] {
    return of_allocations_.Removing(record.allocation, [&] {
      return IsPropagatedDirectory(record.wish)
                 ? propagated_directories_.Removing(record.uid, remove)
                 : remove();
    });
  }));
  return Ok();
}

Result<void> Mounts::Unmount(const std::string& allocation,
                             const std::string& task, const std::string& name,
                             exec::UnmountMode mode) {
  MOUNTD_ASSIGN(const std::optional<MountRecord> found,
                store_.mounts.GetMount(allocation, task, name));
  if (!found) {
    return Ok();
  }
  return Detach(*found, mode);
}

Result<void> Mounts::Lose(const std::string& allocation,
                          const std::string& task, const std::string& name) {
  MOUNTD_ASSIGN(const std::optional<MountRecord> found,
                store_.mounts.GetMount(allocation, task, name));
  if (!found || found->state != MountRecordState::kAttached) {
    return Ok();
  }
  MOUNTD_TRY(executor_.Detach(
      {TargetOf(*found), found->mount_id, exec::UnmountMode::kDetach}));
  // If mountd is killed here, Recover finds no mount and marks the record lost.
  return store_.mounts.SetMountState(*found, MountRecordState::kLost);
}

Result<void> Mounts::Detach(const MountRecord& record, exec::UnmountMode mode) {
  const std::optional<AnchorKey> anchor = AnchorOf(record);
  std::optional<KeyedLocks::Guard> guard;
  if (anchor) {
    guard.emplace(LockSource(*anchor));
  }
  if (record.state == MountRecordState::kAttaching ||
      record.state == MountRecordState::kReplacing ||
      record.state == MountRecordState::kFound) {
    // The record of a swap does not name the new source. Swap has already
    // recorded the anchor of the new source as doubtful.
    if (anchor && record.state == MountRecordState::kAttaching) {
      MOUNTD_TRY(store_.anchors.DoubtAnchor(*anchor));
    }
    MOUNTD_TRY(UndoAttach(record, mode));
  } else {
    MOUNTD_TRY(
        store_.mounts.SetMountState(record, MountRecordState::kDetaching));
    if (Result<void> detached =
            executor_.Detach({TargetOf(record), record.mount_id, mode});
        !detached) {
      // Busy means that the mount is still there, so the record says attached
      // again.
      if (detached.error().code == Code::kBusy) {
        MOUNTD_TRY(store_.mounts.UpdateMount(AsItIsNow(record)));
      }
      return detached;
    }
    MOUNTD_TRY(Forget(record));
  }
  if (anchor) {
    ReleaseAnchorIfUnused(*anchor);
  }
  if (record.state == MountRecordState::kReplacing ||
      record.state == MountRecordState::kFound) {
    // The mount's source is unknown, so any anchor may have lost its last user
    // now.
    has_left_anchors_ = true;
  }
  return Ok();
}

// Returns the record with the mount's present peer group and master, which may
// have changed while mountd tried to remove the mount.
MountRecord Mounts::AsItIsNow(MountRecord record) {
  const Result<exec::MountState> state =
      executor_.InspectTarget(TargetOf(record));
  if (state && state->mount_id == record.mount_id) {
    record.peer_group = state->peer_group;
    record.master = state->master;
  }
  return record;
}

Result<void> Mounts::UnmountAll(const std::string& allocation,
                                const Progress& progress,
                                exec::UnmountMode mode) {
  MOUNTD_ASSIGN(const std::vector<MountRecord> records,
                store_.mounts.MountsOf(allocation));
  progress.At(Step::kUnmount);
  progress.Expect(records.size());
  // If one mount cannot be removed, remove the others all the same, and return
  // the first error.
  Result<void> outcome = Ok();
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (Result<void> detached = Detach(*record, mode); !detached && outcome) {
      outcome = std::move(detached);
    }
    progress.Advance();
  }
  of_allocations_.Forget(allocation);
  return outcome;
}

Result<std::string> Mounts::LookLost(const MountRecord& seen) {
  MOUNTD_ASSIGN(const std::optional<MountRecord> record,
                store_.mounts.GetMount(seen.allocation, seen.task, seen.name));
  if (!record || record->state != MountRecordState::kAttached ||
      record->mount_id != seen.mount_id) {
    return std::string();
  }
  MOUNTD_ASSIGN(const exec::MountState state,
                executor_.InspectTarget(TargetOf(*record)));
  // The mount is at its target: it was there all the time, or has been moved
  // back.
  if (state.mount_id == record->mount_id) {
    return std::string();
  }
  MOUNTD_TRY(store_.mounts.SetMountState(*record, MountRecordState::kLost));
  return std::string(state.mount_id == 0 ? "no mount is there"
                                         : "another mount is there");
}

}  // namespace mountd
