// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/owed_table.h"

namespace mountd::store {

Result<void> OwedTable::AddOwed(const OwedRecord& record) {
  MOUNTD_TRY(database_->Run(
      "INSERT INTO owed(kind,object,uid,reason,attempts,since_us) "
      "VALUES(?1,?2,?3,?4,1,?5) ON CONFLICT(kind,object) DO UPDATE SET "
      "reason=excluded.reason, attempts=attempts+1",
      static_cast<int>(record.kind), record.object, record.uid, record.reason,
      record.since_us));
  ++owed_added_;
  return Ok();
}

Result<void> OwedTable::RemoveOwed(OwedKind kind, const std::string& object) {
  // The last list was empty and nothing was added since, so there is nothing to
  // remove.
  if (nothing_owed_at_ == owed_added_) {
    return Ok();
  }
  MOUNTD_TRY(database_->Run("DELETE FROM owed WHERE kind=?1 AND object=?2",
                            static_cast<int>(kind), object));
  return Ok();
}

Result<bool> OwedTable::IsOwed(std::uint64_t id) {
  bool found = false;
  MOUNTD_TRY(database_->Query(
      "SELECT 1 FROM owed WHERE id=?1",
      [&](const Row& /*row*/) { found = true; }, id));
  return found;
}

Result<bool> OwedTable::IsOwed(OwedKind kind, const std::string& object) {
  bool found = false;
  MOUNTD_TRY(database_->Query(
      "SELECT 1 FROM owed WHERE kind=?1 AND object=?2",
      [&](const Row& /*row*/) { found = true; }, static_cast<int>(kind),
      object));
  return found;
}

Result<std::vector<OwedRecord>> OwedTable::ListOwed() {
  std::vector<OwedRecord> all;
  // Read the counter before the query, so that a record added meanwhile still
  // counts.
  const std::uint64_t added = owed_added_;
  MOUNTD_TRY(database_->Query(
      "SELECT id,kind,object,uid,reason,attempts,since_us FROM owed "
      "ORDER BY id",
      [&](const Row& row) {
        all.push_back({row.Bits(0), static_cast<OwedKind>(row.Int(1)),
                       row.Text(2), static_cast<std::uint32_t>(row.Int(3)),
                       row.Text(4), static_cast<std::uint32_t>(row.Int(5)),
                       row.Bits(6)});
      }));
  if (all.empty()) {
    nothing_owed_at_ = added;
  }
  return all;
}

}  // namespace mountd::store
