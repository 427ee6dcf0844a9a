// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/handed_out_table.h"

#include "mountd/store/count_by.h"

namespace mountd::store {

Result<void> HandedOutTable::PutHandedOut(const HandedOutRecord& record) {
  MOUNTD_TRY(database_->Run(
      "INSERT OR REPLACE INTO handed_out(mount_id,reusable_id,device,"
      "allocation,uid,kind,source_kind,name) VALUES(?1,?2,?3,?4,?5,?6,?7,?8)",
      record.mount.mount_id, record.mount.reusable_id, record.mount.device,
      record.allocation, record.uid, static_cast<int>(record.kind),
      static_cast<int>(record.source_kind), record.name));
  return Ok();
}

template <typename T>
Result<std::vector<HandedOutRecord>> HandedOutTable::SelectHandedOut(
    std::string_view where, const T& argument) {
  std::vector<HandedOutRecord> all;
  MOUNTD_TRY(database_->Query(
      std::string("SELECT mount_id,reusable_id,device,allocation,uid,kind,"
                  "source_kind,name FROM handed_out WHERE ")
          .append(where)
          .append(" ORDER BY mount_id"),
      [&](const Row& row) {
        HandedOutRecord& record = all.emplace_back();
        record.mount = {row.Bits(0), row.Bits(1), row.Bits(2)};
        record.allocation = row.Text(3);
        record.uid = static_cast<std::uint32_t>(row.Int(4));
        record.kind = static_cast<HandedOutKind>(row.Int(5));
        record.source_kind = static_cast<exec::SourceKind>(row.Int(6));
        record.name = row.Text(7);
      },
      argument));
  return all;
}

Result<std::vector<HandedOutRecord>> HandedOutTable::HandedOutOf(
    const std::string& allocation) {
  return SelectHandedOut("allocation=?1", allocation);
}

Result<std::vector<HandedOutRecord>> HandedOutTable::HandedOutOfUser(
    std::uint32_t uid) {
  return SelectHandedOut("uid=?1", uid);
}

Result<std::uint32_t> HandedOutTable::CountHandedOut(
    const std::string& allocation) {
  return CountBy(*database_,
                 "SELECT count(*) FROM handed_out WHERE allocation=?1",
                 allocation);
}

Result<std::uint32_t> HandedOutTable::CountHandedOutOfUser(std::uint32_t uid) {
  return CountBy(*database_, "SELECT count(*) FROM handed_out WHERE uid=?1",
                 uid);
}

Result<void> HandedOutTable::ForgetHandedOut(const HandedOutRecord& record) {
  MOUNTD_TRY(database_->Run("DELETE FROM handed_out WHERE mount_id=?1",
                            record.mount.mount_id));
  return Ok();
}

}  // namespace mountd::store
