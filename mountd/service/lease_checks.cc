// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/lease_checks.h"

#include <algorithm>

namespace mountd {

Error LeaseChecks::LapsedError(const std::string& op, const std::string& object,
                               const std::string& lease) {
  return MakeError(Code::kFailedPrecondition, op, object,
                   "lease lapsed: " + lease +
                       "; GetFence says when its fence is done, and then "
                       "AcquireLease makes it usable again");
}

const LeaseChecks::Entry* LeaseChecks::OfSubject(
    const LeaseRecord& lease) const {
  if (!lease.allocation.empty()) {
    const auto found = by_allocation_.find(lease.allocation);
    return found == by_allocation_.end() ? nullptr
                                         : &entries_.at(found->second);
  }
  const auto found = by_scope_.find({lease.key.uid, lease.scope});
  return found == by_scope_.end() ? nullptr : &entries_.at(found->second);
}

std::vector<const LeaseChecks::Entry*> LeaseChecks::Covering(
    const AllocationRecord& record) const {
  std::vector<const Entry*> all;
  LeaseRecord subject;
  subject.key.uid = record.uid;
  subject.allocation = record.id;
  // The name may have belonged to another user's allocation, whose lease still
  // exists.
  const Entry* const own = OfSubject(subject);
  if (own != nullptr && own->record.key.uid == record.uid) {
    all.push_back(own);
  }
  subject.allocation.clear();
  subject.scope = record.scope;
  const Entry* const scope =
      record.scope.empty() ? nullptr : OfSubject(subject);
  if (scope != nullptr) {
    all.push_back(scope);
  }
  return all;
}

bool LeaseChecks::IsHeld(const Entry& entry) const {
  return entry.record.state == LeaseState::kHeld && entry.doomed.empty() &&
         (entry.record.deadline_boot_us == 0 ||
          clocks_.boot_us() < entry.record.deadline_boot_us);
}

Result<void> LeaseChecks::CheckUsable(const AllocationRecord& record) const {
  const std::lock_guard lock(mutex_);
  if (entries_.empty() && fences_.empty()) {
    return Ok();
  }
  const std::string object = "allocation " + record.id;
  const auto fence = fences_.find(record.id);
  if (fence != fences_.end()) {
    return LapsedError("use", object, fence->second.lease.name);
  }
  for (const Entry* const entry : Covering(record)) {
    if (!IsHeld(*entry)) {
      return LapsedError("use", object, entry->record.key.name);
    }
  }
  return Ok();
}

Result<void> LeaseChecks::CheckHeld(const AllocationRecord& record) const {
  MOUNTD_TRY(CheckUsable(record));
  if (!record.lease_required) {
    return Ok();
  }
  const std::lock_guard lock(mutex_);
  // CheckUsable has already refused a lease that lapsed, so any lease is held.
  return Covering(record).empty()
             ? Result<void>(MakeError(
                   Code::kFailedPrecondition, "use", "allocation " + record.id,
                   "needs a lease (lease_required), and no lease of it is "
                   "held; AcquireLease first"))
             : Ok();
}

bool LeaseChecks::MayRestore(const std::string& allocation) const {
  const Result<std::optional<AllocationRecord>> record =
      state_.allocations.GetAllocation(allocation);
  return record && (!*record || CheckHeld(**record));
}

bool LeaseChecks::IsBound(const AllocationRecord& record) const {
  const std::lock_guard lock(mutex_);
  return (!entries_.empty() || !fences_.empty()) &&
         (fences_.contains(record.id) || !Covering(record).empty());
}

exec::TaskStop LeaseChecks::StopOf(const AllocationRecord& record) const {
  const std::lock_guard lock(mutex_);
  exec::TaskStop most = exec::TaskStop::kNo;
  for (const Entry* const entry : Covering(record)) {
    most = std::max(most, entry->record.stop_tasks);
  }
  return most;
}

}  // namespace mountd
