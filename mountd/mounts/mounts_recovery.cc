// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The part of Mounts that runs at a start.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <vector>

#include "mountd/mounts/mounts.h"
#include "mountd/plan/wire.h"

namespace mountd {

Result<void> Mounts::Recover() {
  MOUNTD_ASSIGN(const std::vector<MountRecord> records,
                store_.mounts.ListMounts());
  recovering_ = true;
  recovery_hangs_ = false;
  Result<void> outcome = Ok();
  for (auto record = records.begin(); record != records.end() && outcome;
       ++record) {
    outcome = RecoverOne(*record);
  }
  recovering_ = false;
  // Leave the anchors to ReleaseLeftAnchors, because releasing one may take
  // until a plan's deadline.
  has_left_anchors_ = true;
  return outcome;
}

Result<void> Mounts::RecordFound(const exec::FoundTarget& found,
                                 std::uint32_t uid) {
  MountRecord record;
  record.allocation = exec::Text(found.target.allocation);
  record.task = exec::Text(found.target.task);
  record.name = exec::Text(found.target.name);
  MOUNTD_ASSIGN(
      const std::optional<MountRecord> known,
      store_.mounts.GetMount(record.allocation, record.task, record.name));
  if (known || record.name.empty()) {
    return Ok();
  }
  spdlog::warn(
      "recovery: mount {} has no record; mountd keeps it, and its agent can "
      "unmount it",
      Described(record));
  record.state = MountRecordState::kFound;
  record.mount_id = found.state.mount_id;
  record.peer_group = found.state.peer_group;
  record.master = found.state.master;
  record.uid = uid;
  has_found_ = true;
  return store_.mounts.PutMount(record);
}

Result<void> Mounts::DoubtAllAnchors() {
  const auto doubt = [&](exec::SourceKind kind, const auto& sources) {
    return store_.Together([&]() -> Result<void> {
      for (const auto& [name, source] : sources) {
        MOUNTD_TRY(store_.anchors.DoubtAnchor({kind, name}));
      }
      return Ok();
    });
  };
  MOUNTD_TRY(doubt(exec::SourceKind::kHostVolume, config_.host_volumes));
  return doubt(exec::SourceKind::kFilesystem, config_.filesystems);
}

Result<void> Mounts::CountFound() {
  if (!has_found_) {
    return Ok();
  }
  MOUNTD_ASSIGN(const std::vector<MountRecord> records,
                store_.mounts.ListMounts());
  has_found_ = std::any_of(records.begin(), records.end(),
                           [](const MountRecord& record) {
                             return record.state == MountRecordState::kFound;
                           });
  return Ok();
}

// Recovers one record. Undoes a mount whose making was cut off, because no
// caller knows of it. If such a mount cannot be undone now (Busy, no answer),
// its record stays and the removal becomes pending, because it must not keep
// mountd from starting. Once one plan has reached its deadline, undoes no
// further mount here. A removal that was cut off only becomes pending, because
// it may hang too.
Result<void> Mounts::RecoverOne(const MountRecord& record) {
  if (record.state == MountRecordState::kDetaching) {
    return Ok();
  }
  if (record.state == MountRecordState::kAttaching) {
    if (!recovery_hangs_) {
      const Result<void> undone = Detach(record);
      recovery_hangs_ =
          !undone && undone.error().code == Code::kDeadlineExceeded;
    }
    return Ok();
  }
  if (record.state == MountRecordState::kReplacing) {
    return Ok();  // Bind with the same request, or Unmount, ends the swap
  }
  const Result<exec::MountState> state =
      executor_.InspectTarget(TargetOf(record));
  if (record.state == MountRecordState::kFound) {
    has_found_ = true;
    return state && state->mount_id == 0 ? Forget(record) : Ok();
  }
  if (!state || state->mount_id == record.mount_id) {
    return Ok();
  }
  return store_.mounts.SetMountState(record, MountRecordState::kLost);
}

}  // namespace mountd
