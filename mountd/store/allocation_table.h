// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/store/database.h"
#include "mountd/store/records.h"

namespace mountd::store {

// Queries allocations, the epochs of their scopes, and their receipts.
// Thread-safe. Never removes an allocation without leaving its receipt.
class AllocationTable {
 public:
  explicit AllocationTable(Database& database) : database_(&database) {}

  // AlreadyExists if an allocation has that name, or another user has a receipt
  // of that name.
  Result<void> AddAllocation(const AllocationRecord& record);
  Result<std::optional<AllocationRecord>> GetAllocation(const std::string& id);
  Result<std::vector<AllocationRecord>> ListAllocations();
  // Returns the allocations of one user's scope, ordered by id.
  Result<std::vector<AllocationRecord>> AllocationsOf(std::uint32_t uid,
                                                      const std::string& scope);
  // Returns the highest epoch that was recorded for the user's scope.
  Result<std::optional<std::uint64_t>> GetEpoch(std::uint32_t uid,
                                                const std::string& scope);
  // Raises the epoch to at least `epoch` and returns the resulting epoch. If
  // the user already has kScopesPerUid scopes, first forgets one: among the
  // scopes without an allocation, the one whose epoch was raised longest ago.
  // ResourceExhausted if every scope has an allocation.
  Result<std::uint64_t> RaiseEpoch(std::uint32_t uid, const std::string& scope,
                                   std::uint64_t epoch);
  Result<std::uint32_t> CountAllocations(std::uint32_t uid);
  Result<void> SetAllocationState(const std::string& id, AllocationState state);
  Result<void> SetAllocationCgroup(const std::string& id, std::uint64_t cgroup);
  Result<void> SetLeaseRequired(const std::string& id);
  Result<void> SetAllocationGroup(const std::string& id, std::uint32_t group);
  // Removes the allocation and its pending tear-downs, and stores `receipt`, in
  // one transaction. Gives the receipt a serial, and adds every volume that was
  // ever detached from this allocation. Removes the user's oldest receipts
  // beyond the limit.
  Result<ReceiptRecord> FinishAllocation(ReceiptRecord receipt);
  Result<std::optional<ReceiptRecord>> GetReceipt(
      const std::string& allocation);

 private:
  // Called within a transaction.
  Result<void> ForgetScopes(std::uint32_t uid);

  Database* const database_;
};

}  // namespace mountd::store
