// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/network_verbs.h"

namespace mountd {

Result<NetworkStatus> NetworkVerbs::SetupNetwork(const CallContext& call,
                                                 const Name& allocation,
                                                 const NetworkRequest& request,
                                                 GivenNetns given) {
  MOUNTD_TRY(access_.PolicyFor(call).MayUseNetwork(call.caller, request));
  MOUNTD_ASSIGN(const AllocationRecord record,
                access_.FindPrepared(call, allocation.str()));
  given.owner_uid = call.caller.uid;
  given.may_be_hosts =
      given.valid() &&
      access_.PolicyFor(call).MayPassHostNamespaces(call.caller);
  MOUNTD_ASSIGN(NetworkStatus status,
                parts_.networks.Setup(allocation.str(), request, given,
                                      record.uid, call.progress));
  MOUNTD_TRY(teardowns_.Forgive(OwedKind::kTeardownNetwork,
                                allocation.str() + "/" + status.interface));
  return status;
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
