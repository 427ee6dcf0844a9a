// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service.h"

// Service's verbs on allocations' networks.
namespace mountd {

Result<NetworkStatus> Service::SetupNetwork(const CallContext& call,
                                            const Name& allocation,
                                            const NetworkSpec& spec,
                                            GivenNetns given) {
  MOUNTD_TRY(policy_.MayUseNetwork(call.caller, spec));
  MOUNTD_ASSIGN(const AllocationRecord record,
                FindPrepared(call, allocation.str()));
  given.owner_uid = call.caller.uid;
  given.may_be_hosts = policy_.MayPassHostNamespaces(call.caller);
  MOUNTD_ASSIGN(
      NetworkStatus status,
      parts_.networks.Setup(allocation.str(), spec, given, record.gid));
  MOUNTD_TRY(teardowns_.Forgive(OwedKind::kTeardownNetwork,
                                allocation.str() + "/" + status.interface));
  return status;
}

Result<void> Service::TeardownNetwork(const CallContext& call,
                                      const Name& allocation,
                                      const std::string& interface) {
  MOUNTD_ASSIGN(const AllocationRecord record, Find(call, allocation.str()));
  return interface.empty() ? teardowns_.TeardownNetworks(record)
                           : teardowns_.TeardownNetwork(record, interface);
}

bool Service::SeesNetwork(const Caller& caller,
                          const std::string& network) const {
  NetworkSpec spec;
  spec.network = network;
  return policy_.MayUseNetwork(caller, spec).has_value();
}

std::vector<std::string> Service::NetworkModes() const {
  std::vector<std::string> modes = {"none", "host", "driver"};
  if (!parts_.config.networks.empty()) {
    modes.insert(modes.begin(), "bridge");
  }
  return modes;
}

}  // namespace mountd
