// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/leases.h"

#include <algorithm>

namespace mountd {
namespace {

constexpr std::uint64_t kUsOfMs = 1000;

std::string LeaseText(const LeaseKey& key) { return "lease " + key.name; }

}  // namespace

Leases::Leases(store::StateStore& state, store::BootStore& boot,
               LeaseClocks clocks)
    : LeaseChecks(state, std::move(clocks)), boot_(boot) {}

std::string Leases::WhyDue(const Entry& entry) {
  if (!entry.doomed.empty()) {
    return entry.doomed;
  }
  return entry.record.kind == LeaseKind::kHeartbeat
             ? "no renewal came before its deadline"
             : "mountd started again, and nobody acquired it again in time";
}

Result<void> Leases::Recover(std::chrono::milliseconds grace) {
  const std::lock_guard change(change_);
  MOUNTD_ASSIGN(boot_id_, state_.leases.BootId());
  MOUNTD_ASSIGN(const std::vector<FenceRecord> fences,
                state_.leases.ListFences());
  for (const FenceRecord& fence : fences) {
    MOUNTD_ASSIGN(const auto owner,
                  state_.allocations.GetAllocation(fence.allocation));
    if (fence.state == FenceState::kBegun || owner) {
      const std::lock_guard lock(mutex_);
      fences_.emplace(fence.allocation, fence);
    }
  }
  MOUNTD_ASSIGN(const std::vector<LeaseRecord> leases,
                state_.leases.ListLeases());
  for (const LeaseRecord& lease : leases) {
    MOUNTD_ASSIGN(const auto owner,
                  state_.allocations.GetAllocation(lease.allocation));
    // mountd was killed after it removed the allocation and before it removed
    // the lease.
    if (!lease.allocation.empty() && !owner) {
      MOUNTD_TRY(state_.leases.RemoveLease(lease.key));
      continue;
    }
    Entry entry{lease};
    if (lease.boot_id != boot_id_) {
      entry.doomed = "the machine started again";
    } else if (lease.kind == LeaseKind::kPipe) {
      entry.record.deadline_boot_us =
          clocks_.boot_us() +
          static_cast<std::uint64_t>(grace.count()) * kUsOfMs;
    } else {
      MOUNTD_ASSIGN(const auto renewed,
                    boot_.lease_deadlines.GetDeadline(lease.key));
      // 0 is the deadline of a pipe. mountd was killed before it wrote that the
      // lease is a heartbeat's now.
      entry.record.deadline_boot_us =
          renewed.value_or(0) != 0
              ? *renewed
              : clocks_.boot_us() + lease.timeout_ms * kUsOfMs;
    }
    Put(std::move(entry));
    if (lease.state == LeaseState::kLapsed) {
      MOUNTD_TRY(RecoverMerged(lease));
    }
  }
  return Ok();
}

Result<void> Leases::CheckAcquirable(const Wanted& wanted) const {
  const LeaseRecord& lease = wanted.lease;
  const std::string object = LeaseText(lease.key);
  const auto found = entries_.find(lease.key);
  const Entry* const same = found == entries_.end() ? nullptr : &found->second;
  if (same != nullptr && (same->record.allocation != lease.allocation ||
                          same->record.scope != lease.scope)) {
    return MakeError(Code::kAlreadyExists, "acquire", object,
                     "is bound to another allocation or scope; release it "
                     "first, or choose another name");
  }
  const Entry* const other = OfSubject(lease);
  if (other != nullptr && !(other->record.key == lease.key)) {
    return MakeError(Code::kAlreadyExists, "acquire", object,
                     "the allocation or scope has the lease " +
                         other->record.key.name + "; release that first");
  }
  const bool expired = same != nullptr && !IsHeld(*same) &&
                       same->record.state == LeaseState::kHeld;
  const bool fencing =
      std::any_of(wanted.covered.begin(), wanted.covered.end(),
                  [&](const std::string& allocation) {
                    const auto fence = fences_.find(allocation);
                    return fence != fences_.end() &&
                           fence->second.state == FenceState::kBegun;
                  });
  if (expired || fencing || IsFencing(lease.key)) {
    return MakeError(Code::kFailedPrecondition, "acquire", object,
                     "lease lapsed, and its fence is not done; GetFence says "
                     "when it is");
  }
  const auto count = static_cast<std::size_t>(std::count_if(
      entries_.begin(), entries_.end(),
      [&](const auto& one) { return one.first.uid == lease.key.uid; }));
  if (same == nullptr && count >= wanted.most) {
    return MakeError(Code::kResourceExhausted, "acquire", object,
                     "limits.leases_per_uid is reached; release others of this "
                     "user or raise the limit");
  }
  return Ok();
}

Result<LeaseRecord> Leases::Acquire(Wanted wanted) {
  const std::lock_guard change(change_);
  std::vector<std::string> lifted;
  {
    const std::lock_guard lock(mutex_);
    MOUNTD_TRY(CheckAcquirable(wanted));
    for (const std::string& allocation : wanted.covered) {
      if (fences_.contains(allocation)) {
        lifted.push_back(allocation);
      }
    }
  }
  LeaseRecord& lease = wanted.lease;
  lease.state = LeaseState::kHeld;
  lease.boot_id = boot_id_;
  lease.reason.clear();
  lease.deadline_boot_us = 0;
  if (lease.kind == LeaseKind::kHeartbeat) {
    lease.deadline_boot_us = clocks_.boot_us() + lease.timeout_ms * kUsOfMs;
  }
  // Record a pipe's deadline, too, as 0. By it AllocationRecovery sees that the
  // user has leases.
  MOUNTD_TRY(
      boot_.lease_deadlines.PutDeadline(lease.key, lease.deadline_boot_us));
  MOUNTD_TRY(state_.leases.PutLeaseAndLift(lease, lifted));
  {
    const std::lock_guard lock(mutex_);
    for (const std::string& allocation : lifted) {
      fences_.erase(allocation);
    }
  }
  Put({lease, std::move(wanted.pipe), 0, ""});
  return lease;
}

Result<LeaseRecord> Leases::Renew(const LeaseKey& key) {
  const std::lock_guard change(change_);
  std::optional<Entry> entry;
  bool held = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end()) {
      entry = found->second;
      held = IsHeld(*entry);
    }
  }
  if (!entry) {
    return MakeError(Code::kNotFound, "renew", LeaseText(key),
                     "this user has no such lease; GetFence of the allocation "
                     "says whether it has lapsed");
  }
  if (!held) {
    return LapsedError("renew", LeaseText(key), key.name);
  }
  if (entry->record.kind != LeaseKind::kHeartbeat) {
    return MakeError(Code::kFailedPrecondition, "renew", LeaseText(key),
                     "lasts as long as its pipe and needs no renewal");
  }
  entry->record.deadline_boot_us =
      clocks_.boot_us() + entry->record.timeout_ms * kUsOfMs;
  MOUNTD_TRY(
      boot_.lease_deadlines.PutDeadline(key, entry->record.deadline_boot_us));
  const std::lock_guard lock(mutex_);
  entries_.at(key).record.deadline_boot_us = entry->record.deadline_boot_us;
  return entry->record;
}

Result<void> Leases::Release(const LeaseKey& key) {
  const std::lock_guard change(change_);
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) {
      // An Acquire that failed may have left a deadline.
      return boot_.lease_deadlines.RemoveDeadline(key);
    }
    const bool expired = found->second.record.state == LeaseState::kHeld &&
                         !IsHeld(found->second);
    if (expired || IsFencing(key)) {
      return MakeError(Code::kFailedPrecondition, "release", LeaseText(key),
                       "lease lapsed, and its fence is not done; wait for its "
                       "end");
    }
  }
  // Remove the deadline first, because a lease that has lost its deadline only
  // lasts longer.
  MOUNTD_TRY(boot_.lease_deadlines.RemoveDeadline(key));
  MOUNTD_TRY(state_.leases.RemoveLease(key));
  Erase(key);
  return Ok();
}

Result<void> Leases::Forget(const std::string& allocation) {
  const std::lock_guard change(change_);
  std::optional<LeaseKey> key;
  {
    const std::lock_guard lock(mutex_);
    const auto fence = fences_.find(allocation);
    if (fence != fences_.end() && fence->second.state == FenceState::kDone) {
      fences_.erase(fence);
    }
    const auto found = by_allocation_.find(allocation);
    if (found == by_allocation_.end()) {
      return Ok();
    }
    key = found->second;
  }
  MOUNTD_TRY(boot_.lease_deadlines.RemoveDeadline(*key));
  MOUNTD_TRY(state_.leases.RemoveLease(*key));
  Erase(*key);
  return Ok();
}

std::vector<LeaseRecord> Leases::List() const {
  const std::lock_guard lock(mutex_);
  std::vector<LeaseRecord> all;
  for (const auto& [key, entry] : entries_) {
    all.push_back(entry.record);
    // The lease may be due although Lapse has not run yet.
    if (!IsHeld(entry)) {
      all.back().state = LeaseState::kLapsed;
      if (all.back().reason.empty()) {
        all.back().reason = WhyDue(entry);
      }
    }
  }
  return all;
}

std::optional<LeaseRecord> Leases::Find(const LeaseKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  return found == entries_.end()
             ? std::nullopt
             : std::optional<LeaseRecord>(found->second.record);
}

std::vector<Leases::Watched> Leases::Pipes() const {
  const std::lock_guard lock(mutex_);
  std::vector<Watched> all;
  for (const auto& [key, entry] : entries_) {
    if (entry.pipe != nullptr && entry.record.state == LeaseState::kHeld) {
      all.push_back({key, entry.serial, entry.pipe});
    }
  }
  return all;
}

std::vector<Leases::Due> Leases::DueNow() const {
  const std::lock_guard lock(mutex_);
  std::vector<Due> all;
  for (const auto& [key, entry] : entries_) {
    if (entry.record.state == LeaseState::kHeld && !IsHeld(entry)) {
      all.push_back({key, WhyDue(entry)});
    }
  }
  return all;
}

std::optional<std::uint64_t> Leases::NextDeadline() const {
  const std::lock_guard lock(mutex_);
  std::optional<std::uint64_t> next;
  for (const auto& [key, entry] : entries_) {
    const std::uint64_t deadline = entry.record.deadline_boot_us;
    if (IsHeld(entry) && deadline != 0 && (!next || deadline < *next)) {
      next = deadline;
    }
  }
  return next;
}

void Leases::Put(Entry entry) {
  const std::lock_guard lock(mutex_);
  entry.serial = ++last_serial_;
  const LeaseRecord& lease = entry.record;
  if (lease.allocation.empty()) {
    by_scope_[{lease.key.uid, lease.scope}] = lease.key;
  } else {
    by_allocation_[lease.allocation] = lease.key;
  }
  const LeaseKey key = lease.key;
  entries_.insert_or_assign(key, std::move(entry));
}

void Leases::Erase(const LeaseKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) {
    return;
  }
  by_allocation_.erase(found->second.record.allocation);
  by_scope_.erase({key.uid, found->second.record.scope});
  entries_.erase(found);
}

}  // namespace mountd
