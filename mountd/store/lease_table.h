// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/store/database.h"
#include "mountd/store/records.h"

namespace mountd::store {

// Queries leases and fences. Thread-safe. Never forgets a fence that is not
// done.
class LeaseTable {
 public:
  // The most receipts of fences of one user.
  static constexpr int kFencesPerUid = 10'000;

  explicit LeaseTable(Database& database) : database_(&database) {}

  // Returns the boot that this store was opened in.
  Result<std::string> BootId();
  Result<void> PutLease(const LeaseRecord& lease);
  Result<std::vector<LeaseRecord>> ListLeases();
  Result<void> RemoveLease(const LeaseKey& key);
  // Records the lapse and the intents of its fences, in one transaction.
  Result<void> BeginFences(const LeaseRecord& lease,
                           const std::vector<FenceRecord>& fences);
  // Writes the fence, as one that is not told. Removes the user's oldest
  // receipts beyond kFencesPerUid.
  Result<void> PutFence(const FenceRecord& fence);
  Result<std::optional<FenceRecord>> GetFence(const std::string& allocation);
  // Returns the fences that are not lifted, done or not.
  Result<std::vector<FenceRecord>> ListFences();
  // Lets the user use the allocations of its fences again: acquires `lease` and
  // lifts these fences, in one transaction.
  Result<void> PutLeaseAndLift(const LeaseRecord& lease,
                               const std::vector<std::string>& allocations);
  Result<void> RemoveFence(const std::string& allocation);
  // Returns the users with a fence that is done and that SetTold does not know.
  Result<std::set<std::uint32_t>> UsersToTell();
  // Returns such fences of the user, the oldest first, at most `most`.
  Result<std::vector<FenceRecord>> ListUntold(std::uint32_t uid,
                                              std::size_t most);
  // Records that mountd has sent FenceDone to a subscriber of the lease's user.
  // Leaves a later fence of the same allocation alone.
  Result<void> SetTold(const std::vector<FenceRecord>& fences);

 private:
  Database* const database_;
};

// Queries the deadlines of heartbeats, which change with each renewal. boot.db
// keeps them, because state.db would wait for the disk each time. Thread-safe.
class LeaseDeadlineTable {
 public:
  explicit LeaseDeadlineTable(Database& database) : database_(&database) {}

  Result<void> PutDeadline(const LeaseKey& key, std::uint64_t deadline_boot_us);
  Result<std::optional<std::uint64_t>> GetDeadline(const LeaseKey& key);
  // Returns whether the user has acquired a lease in this boot that nobody has
  // released since, whatever its kind.
  Result<bool> HasAny(std::uint32_t uid);
  Result<void> RemoveDeadline(const LeaseKey& key);

 private:
  Database* const database_;
};

}  // namespace mountd::store
