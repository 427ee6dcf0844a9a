// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mountd/service/caller_access.h"
#include "mountd/service/fences.h"
#include "mountd/service/leases.h"
#include "mountd/service/service_parts.h"

namespace mountd {

// Owns nothing; lets callers acquire, renew, release and list leases, and shows
// the receipts of fences. Runs on workers. Never logs an error that it returns.
class LeaseVerbs {
 public:
  // The shortest and the longest timeout of a heartbeat.
  static constexpr std::uint64_t kMinTimeoutMs = 1'000;
  static constexpr std::uint64_t kMaxTimeoutMs = 86'400'000;

  LeaseVerbs(const ServiceParts& parts, const CallerAccess& access,
             Leases& leases, const Fences& fences)
      : parts_(parts), access_(access), leases_(leases), fences_(fences) {}

  // Ignores `lease.key.uid`, because the lease becomes the caller's. Only an
  // allocation's owner may acquire a lease for it, because a lapse ends the
  // allocation.
  Result<LeaseRecord> AcquireLease(const CallContext& call, LeaseRecord lease,
                                   std::shared_ptr<UniqueFd> pipe);
  Result<LeaseRecord> RenewLease(const CallContext& call, const Name& lease);
  // An administrator may release another user's lease.
  Result<void> ReleaseLease(const CallContext& call, const LeaseKey& key);
  // Lists the leases that the caller sees.
  Result<std::vector<LeaseRecord>> ListLeases(const CallContext& call);
  // NotFound if the allocation was never fenced.
  Result<FenceRecord> GetFence(const CallContext& call, const Name& allocation);

 private:
  Result<std::vector<AllocationRecord>> CoveredBy(const CallContext& call,
                                                  const LeaseRecord& lease);
  Result<void> MayStop(const CallContext& call, const LeaseRecord& lease,
                       const std::vector<AllocationRecord>& covered);

  const ServiceParts& parts_;
  const CallerAccess& access_;
  Leases& leases_;
  const Fences& fences_;
};

}  // namespace mountd
