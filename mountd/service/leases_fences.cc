// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The fences that Leases records.
#include <algorithm>

#include "mountd/service/leases.h"

namespace mountd {

bool Leases::IsFencing(const LeaseKey& key) const {
  return std::any_of(fences_.begin(), fences_.end(), [&](const auto& one) {
    const auto merged = merged_.find(one.first);
    return one.second.state == FenceState::kBegun &&
           (one.second.lease == key ||
            (merged != merged_.end() && merged->second.contains(key)));
  });
}

// Restores merged_, because a fence's record names only the lease that lapsed
// first.
Result<void> Leases::RecoverMerged(const LeaseRecord& lease) {
  MOUNTD_ASSIGN(const std::vector<AllocationRecord> covered, CoveredBy(lease));
  const std::lock_guard lock(mutex_);
  for (const AllocationRecord& record : covered) {
    const auto fence = fences_.find(record.id);
    if (fence != fences_.end() && fence->second.state == FenceState::kBegun) {
      merged_[record.id].insert(lease.key);
    }
  }
  return Ok();
}

Result<void> Leases::BeginHistory(const std::string& allocation,
                                  std::uint32_t uid) {
  {
    const std::lock_guard change(change_);
    MOUNTD_ASSIGN(const std::optional<FenceRecord> fence,
                  state_.leases.GetFence(allocation));
    if (fence && fence->lease.uid != uid) {
      return MakeError(Code::kAlreadyExists, "prepare",
                       "allocation " + allocation,
                       "another user has a fence's receipt of this name; "
                       "choose another name");
    }
    if (fence && fence->state == FenceState::kBegun) {
      return LapsedError("prepare", "allocation " + allocation,
                         fence->lease.name);
    }
    if (fence) {
      MOUNTD_TRY(state_.leases.RemoveFence(allocation));
    }
  }
  // Forget also removes a lease. If the store failed at the end of the earlier
  // allocation, its lease may still exist and would cover the new allocation.
  return Forget(allocation);
}

Result<std::vector<AllocationRecord>> Leases::CoveredBy(
    const LeaseRecord& lease) const {
  if (lease.allocation.empty()) {
    return state_.allocations.AllocationsOf(lease.key.uid, lease.scope);
  }
  MOUNTD_ASSIGN(const auto one,
                state_.allocations.GetAllocation(lease.allocation));
  return one && one->uid == lease.key.uid ? std::vector<AllocationRecord>{*one}
                                          : std::vector<AllocationRecord>();
}

// Returns a fence that does the work that either of two leases of the same
// allocation asks for. Busy while tasks of another cgroup are not stopped yet
// for the first lease, because a fence has one cgroup at a time.
Result<FenceRecord> Leases::Merged(FenceRecord fence, const LeaseRecord& lease,
                                   const AllocationRecord& record) const {
  const bool stops = lease.stop_tasks != exec::TaskStop::kNo;
  // The allocation may have got its cgroup after the fence began. A cgroup of
  // an earlier boot has no tasks any more.
  if (stops && record.cgroup != 0 &&
      (record.cgroup != fence.cgroup || fence.boot_id != boot_id_)) {
    if (fence.stop_tasks != exec::TaskStop::kNo && fence.cgroup != 0 &&
        fence.boot_id == boot_id_ && fence.tasks_stopped.boot_us == 0) {
      return MakeError(Code::kBusy, "fence", "allocation " + record.id,
                       "tasks in another cgroup have still to be stopped for "
                       "lease " +
                           fence.lease.name + "; mountd tries again");
    }
    fence.cgroup = record.cgroup;
    fence.boot_id = boot_id_;
    fence.stop_tasks = lease.stop_tasks;
    fence.tasks_stopped = {};
  } else if (lease.stop_tasks > fence.stop_tasks) {
    fence.stop_tasks = lease.stop_tasks;
    fence.tasks_stopped = {};
  }
  if (lease.on_lapse == OnLapse::kRelease) {
    fence.on_lapse = OnLapse::kRelease;
  }
  return fence;
}

Result<std::vector<FenceRecord>> Leases::FencesOf(
    const LeaseRecord& lease, const std::vector<AllocationRecord>& all) const {
  std::vector<FenceRecord> fences;
  const FenceTime now = Now();
  const std::lock_guard lock(mutex_);
  for (const AllocationRecord& record : all) {
    FenceRecord fence;
    const auto begun = fences_.find(record.id);
    if (begun != fences_.end() && begun->second.state == FenceState::kBegun) {
      // Another lease of the same allocation has lapsed, too.
      MOUNTD_ASSIGN(fence, Merged(begun->second, lease, record));
    } else {
      fence.allocation = record.id;
      fence.lease = lease.key;
      fence.boot_id = boot_id_;
      fence.on_lapse = lease.on_lapse;
      fence.stop_tasks = lease.stop_tasks;
      fence.cgroup = record.cgroup;
      fence.lapse_reason = lease.reason;
      fence.lapsed = now;
      fence.traceparent = lease.traceparent;
      fence.request_id = lease.request_id;
    }
    fences.push_back(std::move(fence));
  }
  return fences;
}

Result<Leases::Lapsed> Leases::Lapse(const LeaseKey& key,
                                     const std::string& reason,
                                     std::uint64_t serial) {
  const std::lock_guard change(change_);
  LeaseRecord lease;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    const bool is_meant =
        found != entries_.end() &&
        found->second.record.state == LeaseState::kHeld &&
        (serial == 0 ? !IsHeld(found->second) : found->second.serial == serial);
    if (!is_meant) {
      return Lapsed();
    }
    // From here on no call may use the allocations, even before the store has
    // the lapse.
    found->second.doomed = reason;
    lease = found->second.record;
  }
  lease.state = LeaseState::kLapsed;
  lease.reason = reason;
  MOUNTD_ASSIGN(const std::vector<AllocationRecord> covered, CoveredBy(lease));
  MOUNTD_ASSIGN(std::vector<FenceRecord> fences, FencesOf(lease, covered));
  MOUNTD_TRY(state_.leases.BeginFences(lease, fences));
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_.at(key);
  entry.record = lease;
  entry.pipe = nullptr;
  entry.doomed.clear();
  for (const FenceRecord& fence : fences) {
    fences_.insert_or_assign(fence.allocation, fence);
    merged_[fence.allocation].insert(key);
  }
  return Lapsed{true, std::move(lease), std::move(fences)};
}

std::vector<FenceRecord> Leases::Pending() const {
  const std::lock_guard lock(mutex_);
  std::vector<FenceRecord> all;
  for (const auto& [allocation, fence] : fences_) {
    if (fence.state == FenceState::kBegun) {
      all.push_back(fence);
    }
  }
  return all;
}

bool Leases::IsPending(const std::string& allocation) const {
  const std::lock_guard lock(mutex_);
  const auto found = fences_.find(allocation);
  return found != fences_.end() && found->second.state == FenceState::kBegun;
}

Result<FenceRecord> Leases::Change(
    const std::string& allocation,
    const std::function<void(FenceRecord&)>& change) {
  const std::lock_guard one(change_);
  FenceRecord fence;
  {
    const std::lock_guard lock(mutex_);
    const auto found = fences_.find(allocation);
    if (found == fences_.end() || found->second.state != FenceState::kBegun) {
      return MakeError(Code::kNotFound, "fence", "allocation " + allocation,
                       "has no fence under way");
    }
    fence = found->second;
  }
  change(fence);
  MOUNTD_TRY(state_.leases.PutFence(fence));
  MOUNTD_ASSIGN(const auto owner, state_.allocations.GetAllocation(allocation));
  const std::lock_guard lock(mutex_);
  if (fence.state == FenceState::kDone) {
    merged_.erase(allocation);
  }
  if (fence.state == FenceState::kDone && !owner) {
    fences_.erase(allocation);
  } else {
    fences_.insert_or_assign(allocation, fence);
  }
  return fence;
}

}  // namespace mountd
