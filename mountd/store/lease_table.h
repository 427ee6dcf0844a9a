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
  // The most receipts of fences of one user, except that those of existing
  // allocations are always kept.
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
  // Writes the fence as not yet reported. If the fence is done, removes the
  // user's oldest receipts beyond kFencesPerUid, except those of allocations
  // that still exist.
  Result<void> PutFence(const FenceRecord& fence);
  Result<std::optional<FenceRecord>> GetFence(const std::string& allocation);
  // Returns the fences that are not lifted, done or not.
  Result<std::vector<FenceRecord>> ListFences();
  // Writes the acquired `lease` and lifts the fences of these allocations, in
  // one transaction. The user may use the allocations again.
  Result<void> PutLeaseAndLift(const LeaseRecord& lease,
                               const std::vector<std::string>& allocations);
  Result<void> RemoveFence(const std::string& allocation);
  // Returns the users with a fence that is done and not yet reported (SetTold).
  Result<std::set<std::uint32_t>> UsersToTell();
  // Returns at most `most` of the user's fences that are done and not yet
  // reported, the oldest first.
  Result<std::vector<FenceRecord>> ListUntold(std::uint32_t uid,
                                              std::size_t most);
  // Records that mountd has sent FenceDone for these fences to a subscriber of
  // the lease's user. Does not change a later fence of the same allocation.
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
  // Returns whether the user has acquired a lease of any kind in this boot and
  // not released it since.
  Result<bool> HasAny(std::uint32_t uid);
  Result<void> RemoveDeadline(const LeaseKey& key);

 private:
  Database* const database_;
};

}  // namespace mountd::store
