// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/caller_access.h"

#include <algorithm>
#include <utility>

namespace mountd {

bool CallerAccess::Sees(const Caller& caller, std::uint32_t uid) const {
  return caller.uid == uid || PolicyNow().MayAdminister(caller);
}

// A plugin is visible to the user who registered it, and to users who may use
// or control it.
bool CallerAccess::SeesPlugin(const Caller& caller,
                              const PluginRecord& plugin) const {
  return Sees(caller, plugin.uid) ||
         PolicyNow().plugins().MayUsePlugin(caller, plugin.id) ||
         PolicyNow().plugins().MayControlPlugin(caller, plugin.id);
}

bool CallerAccess::Sees(const CallContext& call, std::uint32_t uid) const {
  if (call.caller.uid == uid) {
    return true;
  }
  if (!PolicyFor(call).MayAdminister(call.caller)) {
    return false;
  }
  call.decisions->UsedAsAdministrator(uid);
  return true;
}

bool CallerAccess::SeesPlugin(const CallContext& call,
                              const PluginRecord& plugin) const {
  return PolicyNow().plugins().MayUsePlugin(call.caller, plugin.id) ||
         PolicyNow().plugins().MayControlPlugin(call.caller, plugin.id) ||
         Sees(call, plugin.uid);
}

bool CallerAccess::SeesNetwork(const Caller& caller,
                               const std::string& network) const {
  NetworkRequest request;
  request.network = network;
  return PolicyNow().networks().MayUseNetwork(caller, request).has_value();
}

Result<AllocationRecord> CallerAccess::Find(
    const CallContext& call, const std::string& allocation) const {
  MOUNTD_ASSIGN(std::optional<AllocationRecord> record,
                parts_.state.allocations.GetAllocation(allocation));
  if (!record) {
    return MakeError(Code::kNotFound, "find", "allocation " + allocation,
                     "is not prepared");
  }
  MOUNTD_TRY(PolicyFor(call).MayUse(call.caller, record->uid,
                                    "allocation " + allocation));
  return *std::move(record);
}

Result<AllocationRecord> CallerAccess::FindUnreleased(
    const CallContext& call, const std::string& allocation) const {
  MOUNTD_ASSIGN(AllocationRecord record, Find(call, allocation));
  if (record.state != AllocationState::kPrepared) {
    return MakeError(Code::kFailedPrecondition, "use",
                     "allocation " + allocation,
                     "is being released; wait for its end");
  }
  return record;
}

Result<AllocationRecord> CallerAccess::FindPrepared(
    const CallContext& call, const std::string& allocation) const {
  MOUNTD_ASSIGN(AllocationRecord record, FindUnreleased(call, allocation));
  MOUNTD_TRY(leases_.CheckUsable(record));
  return record;
}

Result<ReceiptRecord> CallerAccess::FindReceipt(
    const CallContext& call, const std::string& allocation) const {
  MOUNTD_ASSIGN(const std::optional<ReceiptRecord> receipt,
                parts_.state.allocations.GetReceipt(allocation));
  if (!receipt) {
    return MakeError(Code::kNotFound, "find", "receipt of " + allocation,
                     "mountd has no receipt of this allocation");
  }
  MOUNTD_TRY(PolicyFor(call).MayUse(call.caller, receipt->uid,
                                    "receipt of " + allocation));
  return *receipt;
}

void CallerAccess::HideOthers(const CallContext& call,
                              HolderReport* report) const {
  const auto is_others = [&](const HolderInfo& holder) {
    return !holder.details->in_cgroup && holder.details->uid != call.caller.uid;
  };
  for (HolderInfo& holder : report->holders) {
    if (is_others(holder) && !Sees(call, holder.details->uid)) {
      holder.details.reset();
    }
  }
}

}  // namespace mountd
