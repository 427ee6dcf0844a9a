// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/unchecked_table.h"

namespace mountd::store {

Result<void> UncheckedTable::PutUnchecked(const UncheckedRecord& record) {
  MOUNTD_TRY(
      database_->Run("INSERT OR REPLACE INTO unchecked(allocation,uid,cgroup) "
                     "VALUES(?1,?2,?3)",
                     record.allocation, record.uid, record.cgroup));
  return Ok();
}

Result<std::vector<UncheckedRecord>> UncheckedTable::UncheckedOf(
    const std::string& allocation) {
  std::vector<UncheckedRecord> all;
  MOUNTD_TRY(database_->Query(
      "SELECT serial,allocation,uid,cgroup FROM unchecked WHERE allocation=?1 "
      "ORDER BY serial",
      [&](const Row& row) {
        all.push_back({row.Bits(0), row.Text(1),
                       static_cast<std::uint32_t>(row.Int(2)), row.Bits(3)});
      },
      allocation));
  return all;
}

Result<void> UncheckedTable::RemoveUnchecked(const UncheckedRecord& record) {
  MOUNTD_TRY(
      database_->Run("DELETE FROM unchecked WHERE serial=?1", record.serial));
  return Ok();
}

}  // namespace mountd::store
