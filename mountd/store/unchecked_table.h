// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/store/database.h"
#include "mountd/store/records.h"

namespace mountd::store {

// Queries the cgroups whose processes may still use mounts that are gone from
// the host. Thread-safe. A record outlives its allocation, until
// AllocationTable forgets the allocation's receipt.
class UncheckedTable {
 public:
  explicit UncheckedTable(Database& database) : database_(&database) {}

  // Adds the record with a new serial, even if the same cgroup has a record
  // already.
  Result<void> PutUnchecked(const UncheckedRecord& record);
  // Returns the records of all allocations of this name.
  Result<std::vector<UncheckedRecord>> UncheckedOf(
      const std::string& allocation);
  // Removes the record. Does nothing if it was put again since.
  Result<void> RemoveUnchecked(const UncheckedRecord& record);

 private:
  Database* const database_;
};

}  // namespace mountd::store
