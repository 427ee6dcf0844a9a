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

// Changes the leases and the fences, in memory and in the stores. Checks no
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

  // Reads the stores at mountd's start. A lease of an earlier boot is due at
  // once. A heartbeat keeps its deadline. The agent with a pipe has `grace` to
  // acquire its lease again, because mountd's end of the pipe ended with
  // mountd.
  Result<void> Recover(std::chrono::milliseconds grace);

  struct Wanted {
    LeaseRecord lease;
    std::shared_ptr<UniqueFd> pipe{};    // kPipe: the read end
    std::vector<std::string> covered{};  // the allocations that exist
    std::uint32_t most = 0;              // leases of this user
  };
  // Makes the lease, or changes a held lease of the same name and subject.
  // Acquires a lapsed lease again if its fences are done, and lifts these
  // fences. AlreadyExists if the name has another subject or the subject has
  // another lease. FailedPrecondition during a fence. ResourceExhausted if the
  // user has too many leases.
  Result<LeaseRecord> Acquire(Wanted wanted);
  // Moves a heartbeat's deadline. NotFound if there is no such lease.
  // FailedPrecondition if the lease has lapsed or is tied to a pipe.
  Result<LeaseRecord> Renew(const LeaseKey& key);
  // Ends a lease without a fence. Success if there is none. FailedPrecondition
  // if the lease has lapsed and a fence of it is not done.
  Result<void> Release(const LeaseKey& key);
  // Ends the lease of an allocation that has been released.
  Result<void> Forget(const std::string& allocation);
  std::vector<LeaseRecord> List() const;
  std::optional<LeaseRecord> Find(const LeaseKey& key) const;

  // Makes room for a new allocation of this name: removes the user's receipt of
  // a fence, and a lease that Forget failed to remove. FailedPrecondition while
  // the fence is not done. AlreadyExists if another user has a receipt of a
  // fence with this name.
  Result<void> BeginHistory(const std::string& allocation, std::uint32_t uid);

  // A held lease and the pipe to watch. Each Acquire has a new serial.
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
  // Records the lapse and begins a fence for each allocation. `serial` is the
  // serial of the pipe that was closed; 0: the lease is due.
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
  // The caller holds mutex_.
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
  std::mutex change_;  // only one change at a time; locked before mutex_
  // Leases that lapsed while another lease's fence was under way, by the
  // allocation of that fence.
  // Guarded by mutex_.
  std::map<std::string, std::set<LeaseKey>> merged_;
  std::uint64_t last_serial_ = 0;
};

}  // namespace mountd
