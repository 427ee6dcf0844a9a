// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/lease_verbs.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "mountd/service/fences.h"
#include "mountd/service/stop_rights.h"

namespace mountd {
namespace {

bool AreTheSame(const std::vector<AllocationRecord>& some,
                const std::vector<AllocationRecord>& others) {
  return std::equal(some.begin(), some.end(), others.begin(), others.end(),
                    [](const AllocationRecord& a, const AllocationRecord& b) {
                      return a.id == b.id && a.cgroup == b.cgroup;
                    });
}

}  // namespace

// Returns the allocations that the lease would cover.
Result<std::vector<AllocationRecord>> LeaseVerbs::CoveredBy(
    const CallContext& call, const LeaseRecord& lease) {
  if (lease.allocation.empty()) {
    return parts_.state.allocations.AllocationsOf(call.caller.uid, lease.scope);
  }
  MOUNTD_ASSIGN(const AllocationRecord record,
                access_.Find(call, lease.allocation));
  // An administrator may release others' allocations, but may not put them
  // under a lease.
  if (record.uid != call.caller.uid) {
    return MakeError(Code::kPermissionDenied, "acquire",
                     "lease of allocation " + record.id,
                     "only the allocation's owner may acquire its lease");
  }
  return std::vector<AllocationRecord>{record};
}

// Checks the right to stop tasks now, because a fence later has no caller. The
// executor checks the rules again when it stops the tasks.
Result<void> LeaseVerbs::MayStop(const CallContext& call,
                                 const LeaseRecord& lease,
                                 const std::vector<AllocationRecord>& covered) {
  if (lease.stop_tasks == exec::TaskStop::kNo) {
    return Ok();
  }
  for (const AllocationRecord& record : covered) {
    if (record.cgroup == 0) {
      return MakeError(Code::kFailedPrecondition, "acquire",
                       "lease " + lease.key.name,
                       "allocation " + record.id +
                           " has no cgroup to stop tasks in; prepare it with "
                           "cgroup");
    }
    MOUNTD_ASSIGN(const exec::CgroupState state,
                  parts_.executor.InspectCgroup({record.cgroup}));
    MOUNTD_TRY(MayFence(parts_, access_.PolicyFor(call), call.caller,
                        state.path.data(), lease.stop_tasks));
  }
  return Ok();
}

Result<LeaseRecord> LeaseVerbs::AcquireLease(const CallContext& call,
                                             LeaseRecord lease,
                                             std::shared_ptr<UniqueFd> pipe) {
  MOUNTD_TRY(access_.PolicyFor(call).MayPrepare(call.caller));
  lease.key.uid = call.caller.uid;
  if (call.trace != nullptr) {
    const CallTrace& names = call.trace->call();
    lease.traceparent = names.parent ? ToText(*names.parent) : "";
    lease.request_id = names.request_id;
  }
  MOUNTD_ASSIGN(const std::vector<AllocationRecord> covered,
                CoveredBy(call, lease));
  MOUNTD_TRY(MayStop(call, lease, covered));
  std::vector<std::string> unusable;
  for (const AllocationRecord& record : covered) {
    if (!leases_.CheckHeld(record)) {
      unusable.push_back(record.id);
    }
  }
  Leases::Wanted wanted;
  wanted.lease = std::move(lease);
  wanted.pipe = pipe;
  wanted.most = parts_.config.limits().leases_per_uid;
  for (const AllocationRecord& record : covered) {
    wanted.covered.push_back(record.id);
  }
  const std::optional<LeaseRecord> before = leases_.Find(wanted.lease.key);
  MOUNTD_ASSIGN(LeaseRecord acquired, leases_.Acquire(wanted));
  // Look again. Meanwhile calls on other strands may have released the
  // allocation, prepared another one in the scope, or given one another cgroup.
  const Result<std::vector<AllocationRecord>> now = CoveredBy(call, acquired);
  Result<void> may = now ? Ok() : Result<void>(now.error());
  if (now && !AreTheSame(*now, covered)) {
    may = MayStop(call, acquired, *now);
  }
  if (!may) {
    if (before && may.error().code != Code::kNotFound) {
      // A call that fails must not end a lease, because then nobody would fence
      // the allocations. The lease stays, with its former right to stop tasks
      // and its former names.
      wanted.lease.stop_tasks = before->stop_tasks;
      wanted.lease.traceparent = before->traceparent;
      wanted.lease.request_id = before->request_id;
      IgnoreBecauseBestEffort(leases_.Acquire(std::move(wanted)));
    } else {
      IgnoreBecauseBestEffort(leases_.Release(acquired.key));
    }
    parts_.on_leases();
    return std::move(may).error();
  }
  parts_.on_leases();
  if (!unusable.empty()) {
    parts_.on_usable(unusable);
  }
  return acquired;
}

Result<LeaseRecord> LeaseVerbs::RenewLease(const CallContext& call,
                                           const Name& lease) {
  return leases_.Renew({call.caller.uid, lease.str()});
}

Result<void> LeaseVerbs::ReleaseLease(const CallContext& call,
                                      const LeaseKey& key) {
  MOUNTD_TRY(access_.PolicyFor(call).MayUse(call.caller, key.uid,
                                            "lease " + key.name));
  MOUNTD_TRY(leases_.Release(key));
  parts_.on_leases();
  return Ok();
}

Result<std::vector<LeaseRecord>> LeaseVerbs::ListLeases(
    const CallContext& call) {
  std::vector<LeaseRecord> all = leases_.List();
  std::erase_if(all, [&](const LeaseRecord& lease) {
    return !access_.Sees(call, lease.key.uid);
  });
  return all;
}

Result<FenceRecord> LeaseVerbs::GetFence(const CallContext& call,
                                         const Name& allocation) {
  MOUNTD_ASSIGN(std::optional<FenceRecord> fence,
                parts_.state.leases.GetFence(allocation.str()));
  if (!fence) {
    return MakeError(Code::kNotFound, "find", "fence of " + allocation.str(),
                     "no lease of this allocation has lapsed");
  }
  MOUNTD_TRY(access_.PolicyFor(call).MayUse(call.caller, fence->lease.uid,
                                            "fence of " + allocation.str()));
  // The allocation may have got new volumes after its lease was acquired again.
  fence->volumes_detached = fence->volumes_detached && !fence->lifted;
  // A plugin that was away during the fence may have detached the volumes
  // later.
  if (fence->state == FenceState::kDone && !fence->volumes_detached) {
    MOUNTD_ASSIGN(const bool detached,
                  IsDetachedByRelease(parts_, allocation.str()));
    fence->volumes_detached = detached;
    if (detached) {
      fence->copies.clear();
    }
  }
  if (fence->state == FenceState::kBegun) {
    fence->error =
        fences_.WhyRepeating(allocation.str()).value_or(fence->error);
  }
  return *std::move(fence);
}

}  // namespace mountd
