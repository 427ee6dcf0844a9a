// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>

#include "mountd/service/service.h"

// Service's verbs on allocations' networks.
namespace mountd {

Result<NetworkStatus> Service::SetupNetwork(const CallContext& call,
                                            const Name& allocation,
                                            const NetworkRequest& request,
                                            GivenNetns given) {
  MOUNTD_TRY(PolicyFor(call).MayUseNetwork(call.caller, request));
  MOUNTD_ASSIGN(const AllocationRecord record,
                FindPrepared(call, allocation.str()));
  given.owner_uid = call.caller.uid;
  given.may_be_hosts =
      given.valid() && PolicyFor(call).MayPassHostNamespaces(call.caller);
  MOUNTD_ASSIGN(NetworkStatus status,
                parts_.networks.Setup(allocation.str(), request, given,
                                      record.uid, call.progress));
  MOUNTD_TRY(teardowns_.Forgive(OwedKind::kTeardownNetwork,
                                allocation.str() + "/" + status.interface));
  return status;
}

Result<void> Service::TeardownNetwork(const CallContext& call,
                                      const Name& allocation,
                                      const std::string& interface) {
  MOUNTD_ASSIGN(const AllocationRecord record, Find(call, allocation.str()));
  return interface.empty()
             ? teardowns_.TeardownNetworks(record, call.progress)
             : teardowns_.TeardownNetwork(record, interface, call.progress);
}

bool Service::SeesNetwork(const Caller& caller,
                          const std::string& network) const {
  NetworkRequest request;
  request.network = network;
  return PolicyNow().MayUseNetwork(caller, request).has_value();
}

std::uint32_t Service::CountFreeHostPorts() const {
  std::vector<PortRange> ranges;
  const std::shared_ptr<const Config> config = parts_.config.Get();
  for (const RuleConfig& rule : config->rules) {
    ranges.insert(ranges.end(), rule.host_ports.begin(), rule.host_ports.end());
  }
  // Sorted, so that a port of several rules is counted once.
  std::sort(
      ranges.begin(), ranges.end(),
      [](const PortRange& a, const PortRange& b) { return a.first < b.first; });
  std::uint32_t count = 0;
  std::uint32_t next = 0;  // counted up to here
  for (const PortRange& range : ranges) {
    if (range.last >= next) {
      const auto first = std::max<std::uint32_t>(range.first, next);
      count += parts_.networks.CountFreePorts(static_cast<std::uint16_t>(first),
                                              range.last);
      next = std::uint32_t{range.last} + 1;
    }
  }
  return count;
}

void Service::AddNetworks(const Caller& caller, Capabilities* capabilities) {
  const bool has_bridge = !parts_.config.networks().empty();
  capabilities->network_modes = {"none", "host", "driver"};
  if (has_bridge) {
    capabilities->network_modes.insert(capabilities->network_modes.begin(),
                                       "bridge");
  }
  capabilities->Set("bridge", has_bridge,
                    "the configuration declares no [network.<name>]");
  capabilities->networks = parts_.networks.GetUsage();
  for (const PortRange& range : PolicyNow().HostPortsOf(caller)) {
    capabilities->host_ports.push_back(
        {range, parts_.networks.CountFreePorts(range.first, range.last)});
  }
  AddCniNetworks(caller, capabilities);
}

void Service::AddCniNetworks(const Caller& caller, Capabilities* capabilities) {
  if (!parts_.config.cni().enabled()) {
    capabilities->Set("cni", false, "the configuration has no [cni] section");
    return;
  }
  if (!PolicyNow().MayBeInSomeCni(caller)) {
    capabilities->Set("cni", false, "no rule grants this user any CNI network");
    return;
  }
  const Result<CniListing> listing = parts_.networks.cni().List();
  capabilities->Set("cni", listing.has_value(),
                    listing ? "" : listing.error().Message());
  if (!listing) {
    return;
  }
  capabilities->cni_plugins = listing->plugins;
  for (const auto& [name, network] : listing->networks) {
    NetworkRequest request;
    request.mode = NetworkMode::kCni;
    request.network = name;
    if (!PolicyNow().MayUseNetwork(caller, request)) {
      continue;
    }
    const std::string mode = ModeText(request.mode, name);
    if (network.unusable.empty()) {
      capabilities->network_modes.push_back(mode);
    } else {
      capabilities->missing[mode] = network.unusable;
    }
  }
}

}  // namespace mountd
