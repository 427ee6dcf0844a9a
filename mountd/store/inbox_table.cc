// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/inbox_table.h"

namespace mountd::store {

Result<void> InboxTable::PutInbox(const InboxRecord& record) {
  MOUNTD_TRY(database_->Run(
      "INSERT OR IGNORE INTO inboxes(allocation,task) VALUES(?1,?2)",
      record.allocation, record.task));
  return Ok();
}

Result<std::vector<std::string>> InboxTable::InboxesOf(
    const std::string& allocation) {
  std::vector<std::string> tasks;
  MOUNTD_TRY(database_->Query(
      "SELECT task FROM inboxes WHERE allocation=?1 ORDER BY task",
      [&](const Row& row) { tasks.push_back(row.Text(0)); }, allocation));
  return tasks;
}

Result<void> InboxTable::RemoveInbox(const InboxRecord& record) {
  MOUNTD_TRY(
      database_->Run("DELETE FROM inboxes WHERE allocation=?1 AND task=?2",
                     record.allocation, record.task));
  return Ok();
}

Result<void> InboxTable::RemoveInboxes(const std::string& allocation) {
  MOUNTD_TRY(
      database_->Run("DELETE FROM inboxes WHERE allocation=?1", allocation));
  return Ok();
}

}  // namespace mountd::store
