// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/store/database.h"
#include "mountd/store/records.h"

namespace mountd::store {

// Queries pending tear-downs. Thread-safe. Never has two records of one kind
// and object.
class OwedTable {
 public:
  explicit OwedTable(Database& database) : database_(&database) {}

  // Adds the record, or counts one more attempt for the same (kind, object).
  Result<void> AddOwed(const OwedRecord& record);
  Result<void> RemoveOwed(OwedKind kind, const std::string& object);
  Result<bool> IsOwed(std::uint64_t id);
  Result<bool> IsOwed(OwedKind kind, const std::string& object);
  Result<std::vector<OwedRecord>> ListOwed();

 private:
  Database* const database_;
  // Let RemoveOwed skip its statement, because each mount that succeeds calls
  // RemoveOwed and nearly always nothing is pending. The two are equal if the
  // last list was empty and nothing was added since.
  std::atomic<std::uint64_t> owed_added_ = 0;
  std::atomic<std::uint64_t> nothing_owed_at_ = UINT64_MAX;
};

}  // namespace mountd::store
