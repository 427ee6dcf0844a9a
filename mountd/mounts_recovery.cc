// SPDX-License-Identifier: LGPL-2.1-or-later
//
// What Mounts finds at a start.
#include <vector>

#include "mountd/exec/wire.h"
#include "mountd/mounts.h"

namespace mountd {

Result<void> Mounts::Recover() {
  MOUNTD_ASSIGN(const std::vector<MountRecord> records, store_.ListMounts());
  recovering_ = true;
  recovery_hangs_ = false;
  Result<void> outcome = Ok();
  for (auto record = records.begin(); record != records.end() && outcome;
       ++record) {
    outcome = RecoverOne(*record);
  }
  recovering_ = false;
  has_left_anchors_ = true;
  return outcome;
}

// Nobody was told of a mount whose making was cut off. What cannot go now
// (Busy, no answer) stays recorded, to be owed: it must not keep mountd from
// starting, so once one has waited for a server in vain, no other does. An
// undoing may have waited before: it is only owed.
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
    return Ok();  // for the same call again, or Unmount
  }
  const Result<exec::MountState> state =
      executor_.InspectTarget(TargetOf(record));
  if (!state || state->mount_id == record.mount_id) {
    return Ok();
  }
  return store_.SetMountState(record, MountRecordState::kLost);
}

}  // namespace mountd
