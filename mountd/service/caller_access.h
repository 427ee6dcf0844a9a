// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>

#include "mountd/base/caller.h"
#include "mountd/executors/holder_report.h"
#include "mountd/policy/policy.h"
#include "mountd/service/lease_checks.h"
#include "mountd/service/service_parts.h"

namespace mountd {

// Owns nothing. Finds objects of the stores for a caller, and says which
// objects the caller may use and see. All verbs share this object. Runs on any
// thread: the Find functions block, so they run on workers, and the Sees
// functions answer at once. Never changes an object.
class CallerAccess {
 public:
  CallerAccess(const ServiceParts& parts, const LeaseChecks& leases)
      : parts_(parts), leases_(leases) {}

  // Returns the policy now in force. Records its decisions for the call's log
  // line.
  Policy PolicyFor(const CallContext& call) const {
    return Policy(parts_.config.Get(), call.decisions);
  }
  // As PolicyFor, for reads. Records no decision.
  Policy PolicyNow() const { return Policy(parts_.config.Get()); }

  // Returns the record if the caller may use it. NotFound, PermissionDenied.
  Result<AllocationRecord> Find(const CallContext& call,
                                const std::string& allocation) const;
  // As Find. FailedPrecondition during a release.
  Result<AllocationRecord> FindUnreleased(const CallContext& call,
                                          const std::string& allocation) const;
  // As FindUnreleased. FailedPrecondition once a lease has lapsed.
  Result<AllocationRecord> FindPrepared(const CallContext& call,
                                        const std::string& allocation) const;
  // Returns the checks of leases. A verb that makes an object repeats these
  // checks at its end, because a lease may have lapsed meanwhile.
  const LeaseChecks& leases() const { return leases_; }
  // Returns the receipt if the caller may use it. NotFound, PermissionDenied.
  Result<ReceiptRecord> FindReceipt(const CallContext& call,
                                    const std::string& allocation) const;

  // Ok if the caller may see all users' objects. PermissionDenied unless it is
  // an administrator.
  Result<void> SeesAll(const CallContext& call) const {
    return PolicyFor(call).MustAdminister(call.caller, "see", "all users");
  }
  // Returns whether the caller may see objects of `uid`.
  bool Sees(const Caller& caller, std::uint32_t uid) const;
  bool SeesPlugin(const Caller& caller, const PluginRecord& plugin) const;
  // The same for an answer to a call. If an administrator sees another user's
  // object, records that for the call's log line.
  bool Sees(const CallContext& call, std::uint32_t uid) const;
  bool SeesPlugin(const CallContext& call, const PluginRecord& plugin) const;
  bool SeesNetwork(const Caller& caller, const std::string& network) const;
  // Removes details of other users' processes that the caller may not see.
  void HideOthers(const CallContext& call, HolderReport* report) const;

 private:
  const ServiceParts& parts_;
  const LeaseChecks& leases_;
};

}  // namespace mountd
