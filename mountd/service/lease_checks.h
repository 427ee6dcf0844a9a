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

// Owns the leases and the fences in memory, and decides by them which
// allocations calls may use. The subclass Leases changes them.
//
// A lease counts as lapsed from its deadline on, even if Leases::Lapse has not
// run yet. So no call uses an allocation between the two moments.
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
  // Returns whether mountd may stage, publish or mount for the allocation
  // without a call: as CheckHeld decides. False if the store cannot be read.
  bool MayRestore(const std::string& allocation) const;
  // Returns whether the allocation has a lease or a fence. Calls for other
  // allocations need not check again at their end whether a lease has lapsed.
  bool IsBound(const AllocationRecord& record) const;
  // Returns how a fence of the allocation would stop tasks.
  exec::TaskStop StopOf(const AllocationRecord& record) const;

 protected:
  LeaseChecks(store::StateStore& state, LeaseClocks clocks)
      : state_(state), clocks_(std::move(clocks)) {}
  // Protected, because nobody may delete Leases by a pointer to this class.
  ~LeaseChecks() = default;

  struct Entry {
    LeaseRecord record;
    std::shared_ptr<UniqueFd> pipe{};
    std::uint64_t serial = 0;
    // Why the lease is due before its deadline; "": it is not.
    std::string doomed{};
  };
  using Entries = std::map<LeaseKey, Entry>;

  static Error LapsedError(const std::string& op, const std::string& object,
                           const std::string& lease);
  // The caller holds mutex_.
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
  // The fences that are not done. Also done fences of allocations that still
  // exist, unless the fence is lifted.
  std::map<std::string, FenceRecord> fences_;
};

}  // namespace mountd
