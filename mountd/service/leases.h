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

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/service/lease_checks.h"
#include "mountd/store/boot_store.h"
#include "mountd/store/state_store.h"

namespace mountd {

// Changes the leases and the fences, in memory and in the stores. Knows no
// policy and runs no plan.
//
//   Acquire --> held --deadline, pipe closed, other boot--> lapsed
//                ^                                            | fences begun
//                +------ Acquire, once the fences are done ---+
//
// Thread-safe. The functions that change something block; the others answer at
// once, also on the loop's thread.
class Leases : public LeaseChecks {
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

  // Makes room for another allocation of this name: removes the user's receipt
  // of a fence, and a lease that Forget could not. FailedPrecondition while the
  // fence is not done. AlreadyExists if another user has such a receipt.
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
  // Called with mutex_.
  static std::string WhyDue(const Entry& entry);
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

  store::BootStore& boot_;
  std::string boot_id_;
  std::mutex change_;  // one change at a time; taken before mutex_
  // Leases that lapsed during another lease's fence, by the fence's allocation.
  // Guarded by mutex_.
  std::map<std::string, std::set<LeaseKey>> merged_;
  std::uint64_t last_serial_ = 0;
};

}  // namespace mountd
