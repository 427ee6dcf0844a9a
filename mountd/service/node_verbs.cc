// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/node_verbs.h"

namespace mountd {

Result<std::vector<std::string>> NodeVerbs::Reload(const CallContext& call) {
  MOUNTD_TRY(access_.PolicyFor(call).MustAdminister(call.caller, "reload",
                                                    "configuration"));
  return parts_.reload();
}

Result<bool> NodeVerbs::OwnsSomething() {
  MOUNTD_ASSIGN(const auto allocations,
                parts_.state.allocations.ListAllocations());
  MOUNTD_ASSIGN(const auto plugins, parts_.state.plugins.ListPlugins());
  MOUNTD_ASSIGN(const auto volumes, parts_.state.volumes.ListVolumes());
  MOUNTD_ASSIGN(const auto owed, parts_.state.owed.ListOwed());
  // mountd retries these tear-downs, and has no pending record of them.
  MOUNTD_ASSIGN(const auto anchors, parts_.boot.anchors.ListAnchors());
  MOUNTD_ASSIGN(const auto quarantine, parts_.boot.networks.ListQuarantine());
  // A lease counts too, because a lease of a scope may have no allocation yet,
  // and without mountd nobody would watch the lease.
  MOUNTD_ASSIGN(const auto leases, parts_.state.leases.ListLeases());
  return !allocations.empty() || !plugins.empty() || !volumes.empty() ||
         !leases.empty() || !owed.empty() || !anchors.empty() ||
         !quarantine.empty() || !parts_.config.plugins().empty();
}

Result<std::vector<OwedRecord>> NodeVerbs::ListOwed(const CallContext& call) {
  MOUNTD_ASSIGN(std::vector<OwedRecord> owed, parts_.state.owed.ListOwed());
  std::erase_if(owed, [&](const OwedRecord& one) {
    return !access_.Sees(call, one.uid);
  });
  return owed;
}

}  // namespace mountd
