// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mountd/base/boot_clock.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/base/wall_clock.h"
#include "mountd/store/boot_store.h"
#include "mountd/store/state_store.h"

namespace mountd {

struct LeaseClocks {
  std::function<std::uint64_t()> boot_us = BootMicroseconds;
  std::function<std::uint64_t()> wall_us = NowMicroseconds;
};

// Owns the leases and the fences, in memory and in the stores. Knows no policy
// and runs no plan.
//
//   Acquire --> held --deadline, pipe closed, other boot--> lapsed
//                ^                                            | fences begun
//                +------ Acquire, once the fences are done ---+
//
// A lease counts as lapsed from the moment of its deadline on, whether or not
// Lapse has run. So no call uses an allocation between the two.
//
// Thread-safe. The functions that change something block; the others answer at
// once, also on the loop's thread.
class Leases {
 public:
  Leases(store::StateStore& state, store::BootStore& boot,
         LeaseClocks clocks = {});

  // Reads the stores at mountd's start. A lease of another boot is due at once.
  // A heartbeat keeps its deadline. A pipe cannot survive mountd, so its holder
  // has `grace` to acquire the lease again.
  Result<void> Recover(std::chrono::milliseconds grace);

  struct Wanted {
    LeaseRecord lease;
    std::shared_ptr<UniqueFd> pipe{};    // kPipe: the read end
    std::vector<std::string> covered{};  // the allocations that exist
    std::uint32_t most = 0;              // leases of this user
  };
  // Makes the lease, or changes a held one of the same name and subject.
  // Acquires a lapsed lease again once its fences are done, and lifts those.
  // AlreadyExists if the name or the subject has another lease.
  // FailedPrecondition during a fence. ResourceExhausted.
  Result<LeaseRecord> Acquire(Wanted wanted);
  // Moves a heartbeat's deadline. NotFound. FailedPrecondition if it has
  // lapsed, or is a pipe's.
  Result<LeaseRecord> Renew(const LeaseKey& key);
  // Ends a lease without a fence. Success if there is none. FailedPrecondition
  // if a lapsed lease's fence is not done.
  Result<void> Release(const LeaseKey& key);
  // Ends the lease of an allocation that has been released.
  Result<void> Forget(const std::string& allocation);
  std::vector<LeaseRecord> List() const;
  std::optional<LeaseRecord> Find(const LeaseKey& key) const;

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
  // Makes room for another allocation of this name: removes the user's receipt
  // of a fence. FailedPrecondition while the fence is not done. AlreadyExists
  // if another user has such a receipt.
  Result<void> BeginHistory(const std::string& allocation, std::uint32_t uid);

  // A held lease whose pipe is to be watched. Each Acquire has a serial of its
  // own.
  struct Watched {
    LeaseKey key;
    std::uint64_t serial = 0;
    std::shared_ptr<UniqueFd> pipe;
  };
  std::vector<Watched> Pipes() const;
  struct Due {
    LeaseKey key;
    std::string reason;
  };
  std::vector<Due> DueNow() const;
  // Returns the next deadline of a lease that is not due yet, of
  // CLOCK_BOOTTIME; nothing if there is none.
  std::optional<std::uint64_t> NextDeadline() const;

  struct Lapsed {
    // False if the lease was renewed, released, or acquired with another pipe
    // meanwhile.
    bool lapsed = false;
    LeaseRecord lease;
    std::vector<FenceRecord> fences;
  };
  // Records the lapse and begins a fence for each allocation. `serial` is that
  // of the pipe that was closed; 0: the lease is due.
  Result<Lapsed> Lapse(const LeaseKey& key, const std::string& reason,
                       std::uint64_t serial = 0);
  // Returns the fences that are not done.
  std::vector<FenceRecord> Pending() const;
  bool IsPending(const std::string& allocation) const;
  // Changes a fence that is not done, on disk first. Returns the new record;
  // NotFound if there is no such fence.
  Result<FenceRecord> Change(const std::string& allocation,
                             const std::function<void(FenceRecord&)>& change);
  FenceTime Now() const { return {clocks_.boot_us(), clocks_.wall_us()}; }
  const std::string& boot_id() const { return boot_id_; }

 private:
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
  std::string WhyDue(const Entry& entry) const;
  bool IsFencing(const LeaseKey& key) const;
  Result<void> CheckAcquirable(const Wanted& wanted) const;

  Result<std::vector<AllocationRecord>> CoveredBy(
      const LeaseRecord& lease) const;
  Result<std::vector<FenceRecord>> FencesOf(
      const LeaseRecord& lease, const std::vector<AllocationRecord>& all) const;
  Result<FenceRecord> Merged(FenceRecord fence, const LeaseRecord& lease,
                             const AllocationRecord& record) const;
  Result<void> RecoverMerged(const LeaseRecord& lease);
  void Put(Entry entry);
  void Erase(const LeaseKey& key);

  store::StateStore& state_;
  store::BootStore& boot_;
  const LeaseClocks clocks_;
  std::string boot_id_;
  std::mutex change_;  // one change at a time; taken before mutex_
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  Entries entries_;
  std::map<std::string, LeaseKey> by_allocation_;
  std::map<std::pair<std::uint32_t, std::string>, LeaseKey> by_scope_;
  // The fences that are not done, and those of allocations that still exist,
  // unless they are lifted.
  std::map<std::string, FenceRecord> fences_;
  // Leases that lapsed during another lease's fence, by the fence's allocation.
  std::map<std::string, std::set<LeaseKey>> merged_;
  std::uint64_t last_serial_ = 0;
};

}  // namespace mountd
