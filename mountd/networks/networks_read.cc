// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The part of Networks that reads one network and opens its namespace.
#include <algorithm>
#include <string>
#include <vector>

#include "mountd/networks/networks.h"
#include "mountd/plan/wire.h"

namespace mountd {
namespace {

std::string InterfacesOf(const std::vector<NetworkStatus>& networks) {
  std::string all;
  for (const NetworkStatus& network : networks) {
    all += (all.empty() ? "" : ", ") + network.interface;
  }
  return all;
}

}  // namespace

Result<NetworkStatus> Networks::Get(const std::string& allocation,
                                    const std::string& interface) {
  MOUNTD_ASSIGN(const std::vector<NetworkStatus> networks, Of(allocation));
  if (interface.empty() && networks.size() > 1) {
    return MakeError(Code::kInvalidArgument, "find", "network of " + allocation,
                     "the allocation has several; name one by its interface, "
                     "which is one of " +
                         InterfacesOf(networks));
  }
  const auto found = std::find_if(
      networks.begin(), networks.end(), [&](const NetworkStatus& network) {
        return interface.empty() || network.interface == interface;
      });
  if (found == networks.end()) {
    return MakeError(Code::kNotFound, "find", "network of " + allocation,
                     interface.empty()
                         ? "the allocation has no network; set one up first"
                         : "the allocation has no interface " + interface +
                               "; GetAllocation lists those that it has");
  }
  return *found;
}

Result<exec::HandedOutFd> Networks::OpenNamespace(
    const std::string& allocation, const NetworkStatus& network) {
  if (!HasNamespace(network.mode)) {
    return MakeError(Code::kFailedPrecondition, "open",
                     "namespace of " + allocation,
                     "its network is the host's, which mountd hands to nobody");
  }
  exec::NetworkPlan plan;
  plan.allocation = exec::ToWire(allocation);
  plan.netns_inode = network.netns_inode;
  plan.origin = exec::NamespaceOrigin::kExisting;
  return executor_.OpenNamespace(plan);
}

}  // namespace mountd
