// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/network_verbs.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "mountd/service/handed_out.h"
#include "mountd/service/owners_call.h"

namespace mountd {

Result<NetworkStatus> NetworkVerbs::SetupNetwork(const CallContext& call,
                                                 const Name& allocation,
                                                 const NetworkRequest& request,
                                                 GivenNetns given) {
  MOUNTD_TRY(
      access_.PolicyFor(call).networks().MayUseNetwork(call.caller, request));
  MOUNTD_ASSIGN(const AllocationRecord record,
                access_.FindPrepared(call, allocation.str()));
  given.owner_uid = call.caller.uid;
  given.may_be_hosts =
      given.valid() &&
      access_.PolicyFor(call).networks().MayPassHostNamespaces(call.caller);
  std::vector<NetworkStatus> before;
  if (access_.leases().IsBound(record)) {
    MOUNTD_ASSIGN(before, parts_.networks.Of(allocation.str()));
  }
  MOUNTD_ASSIGN(NetworkStatus status,
                parts_.networks.Setup(allocation.str(), request, given,
                                      record.uid, call.progress));
  MOUNTD_TRY(teardowns_.Forgive(OwedKind::kTeardownNetwork,
                                allocation.str() + "/" + status.interface));
  Result<void> usable = access_.leases().CheckUsable(record);
  if (!usable) {
    // The lease lapsed during the call, so undo a network that this call made.
    const bool existed = std::any_of(
        before.begin(), before.end(), [&](const NetworkStatus& network) {
          return network.interface == status.interface;
        });
    if (!existed) {
      IgnoreBecauseBestEffort(
          teardowns_.TeardownNetwork(record, status.interface));
    }
    return std::move(usable).error();
  }
  return status;
}

Result<NetworkVerbs::Network> NetworkVerbs::GetNetwork(
    const CallContext& call, const Name& allocation,
    const std::string& interface, bool open) {
  MOUNTD_ASSIGN(const AllocationRecord record,
                open ? access_.FindPrepared(call, allocation.str())
                     : access_.Find(call, allocation.str()));
  Network network;
  MOUNTD_ASSIGN(network.status,
                parts_.networks.Get(allocation.str(), interface));
  if (!open) {
    return network;
  }
  // An administrator may look at other users' networks. But an fd gives more
  // than a look, because it keeps the namespace alive.
  if (call.caller.uid != record.uid) {
    return MakeError(Code::kPermissionDenied, "open",
                     "namespace of " + allocation.str(),
                     "only the user of the allocation gets its namespace");
  }
  HandedOutRecord handed_out;
  handed_out.allocation = record.id;
  handed_out.uid = record.uid;
  handed_out.kind = HandedOutKind::kNamespace;
  MOUNTD_ASSIGN(UniqueFd netns, HandOut(parts_, std::move(handed_out), [&] {
                  return parts_.networks.OpenNamespace(record.id,
                                                       network.status);
                }));
  // Check again, because the lease may have lapsed during the call.
  MOUNTD_TRY(access_.leases().CheckUsable(record));
  network.netns = std::make_shared<UniqueFd>(std::move(netns));
  return network;
}

Result<NetworkStatus> NetworkVerbs::UpdatePorts(
    const CallContext& call, const Name& allocation,
    const std::string& interface, const std::vector<PortMapping>& ports) {
  MOUNTD_ASSIGN(const AllocationRecord record,
                access_.FindPrepared(call, allocation.str()));
  MOUNTD_ASSIGN(const NetworkStatus status,
                parts_.networks.Get(allocation.str(), interface));
  // The rules must grant all ports now, even those that the network already
  // has.
  NetworkRequest request;
  request.mode = status.mode;
  request.network = status.network;
  request.ports = ports;
  MOUNTD_TRY(
      access_.PolicyFor(call).networks().MayUseNetwork(call.caller, request));
  MOUNTD_ASSIGN(NetworkStatus updated,
                parts_.networks.UpdatePorts(allocation.str(), status.interface,
                                            ports, call.progress));
  if (Result<void> usable = access_.leases().CheckUsable(record); !usable) {
    // The lease lapsed during the call, so restore the ports from before the
    // call.
    IgnoreBecauseBestEffort(
        parts_.networks.UpdatePorts(allocation.str(), status.interface,
                                    AsAskedFor(status.ports), call.progress));
    return std::move(usable).error();
  }
  return updated;
}

bool NetworkVerbs::GrantsPorts(const NetworkRecord& record) const {
  const auto owner = parts_.state.allocations.GetAllocation(record.allocation);
  if (!owner || !*owner) {
    return false;
  }
  NetworkRequest request;
  request.mode = record.mode;
  request.network = record.network;
  request.ports = record.ports;
  // First try without the user database, because it may answer late at a start.
  Caller caller;
  caller.uid = (*owner)->uid;
  caller.gid = (*owner)->gid;
  if (access_.PolicyNow().networks().MayUseNetwork(caller, request)) {
    return true;
  }
  const Result<CallContext> call = OwnersCall(**owner);
  return call &&
         access_.PolicyNow().networks().MayUseNetwork(call->caller, request);
}

Result<void> NetworkVerbs::TeardownNetwork(const CallContext& call,
                                           const Name& allocation,
                                           const std::string& interface) {
  MOUNTD_ASSIGN(const AllocationRecord record,
                access_.Find(call, allocation.str()));
  return interface.empty()
             ? teardowns_.TeardownNetworks(record, call.progress)
             : teardowns_.TeardownNetwork(record, interface, call.progress);
}

}  // namespace mountd
