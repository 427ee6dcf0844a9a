// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/store/database.h"
#include "mountd/store/records.h"

namespace mountd::store {

// Queries inboxes. Thread-safe. Never has two records of one task.
class InboxTable {
 public:
  explicit InboxTable(Database& database) : database_(&database) {}

  Result<void> PutInbox(const InboxRecord& record);
  Result<std::vector<std::string>> InboxesOf(const std::string& allocation);
  Result<void> RemoveInbox(const InboxRecord& record);
  Result<void> RemoveInboxes(const std::string& allocation);

 private:
  Database* const database_;
};

}  // namespace mountd::store
