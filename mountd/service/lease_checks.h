// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "mountd/base/boot_clock.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/base/wall_clock.h"
#include "mountd/store/state_store.h"

namespace mountd {

struct LeaseClocks {
  std::function<std::uint64_t()> boot_us = BootMicroseconds;
  std::function<std::uint64_t()> wall_us = NowMicroseconds;
};

// Owns the leases and the fences in memory, and says which allocations calls
// may use because of them. Leases changes them.
//
// A lease counts as lapsed from the moment of its deadline on, whether or not
// Leases::Lapse has run. So no call uses an allocation between the two.
//
// Thread-safe. The functions answer at once, also on the loop's thread.
class LeaseChecks {
 public:
  // Ok unless a lease of the allocation has lapsed or the allocation is fenced.
  // FailedPrecondition, "lease lapsed", otherwise.
  Result<void> CheckUsable(const AllocationRecord& record) const;
  // As CheckUsable. Also FailedPrecondition if the allocation needs a lease and
  // none is held.
  Result<void> CheckHeld(const AllocationRecord& record) const;
  // Returns whether mountd may stage, publish or mount something for the
  // allocation by itself: as CheckHeld says. False if the store cannot be read.
  bool MayRestore(const std::string& allocation) const;
  // Returns whether the allocation has a lease or a fence. Calls of others
  // never need to look back for a lapse.
  bool IsBound(const AllocationRecord& record) const;
  // Returns how a fence of the allocation would stop tasks.
  exec::TaskStop StopOf(const AllocationRecord& record) const;

 protected:
  LeaseChecks(store::StateStore& state, LeaseClocks clocks)
      : state_(state), clocks_(std::move(clocks)) {}
  // Nobody deletes Leases by this class.
  ~LeaseChecks() = default;

  struct Entry {
    LeaseRecord record;
    std::shared_ptr<UniqueFd> pipe{};
    std::uint64_t serial = 0;
    std::string doomed{};  // why it is due whatever its deadline says
  };
  using Entries = std::map<LeaseKey, Entry>;

  static Error LapsedError(const std::string& op, const std::string& object,
                           const std::string& lease);
  // Called with mutex_.
  const Entry* OfSubject(const LeaseRecord& lease) const;
  std::vector<const Entry*> Covering(const AllocationRecord& record) const;
  bool IsHeld(const Entry& entry) const;

  store::StateStore& state_;
  const LeaseClocks clocks_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  Entries entries_;
  std::map<std::string, LeaseKey> by_allocation_;
  std::map<std::pair<std::uint32_t, std::string>, LeaseKey> by_scope_;
  // The fences that are not done, and those of allocations that still exist,
  // unless they are lifted.
  std::map<std::string, FenceRecord> fences_;
};

}  // namespace mountd
