// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/capability_verbs.h"

#include <algorithm>

#include "mountd/base/paths.h"

namespace mountd {

std::string CapabilityVerbs::MountNamespace() const {
  return parts_.config.Get()->mounts.own_namespace ? paths::kNamespace : "";
}

std::uint32_t CapabilityVerbs::CountFreeHostPorts() const {
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

Result<Capabilities> CapabilityVerbs::GetCapabilities(const CallContext& call) {
  MOUNTD_ASSIGN(const exec::HelloReply hello, features_.Get());
  Capabilities capabilities;
  capabilities.stuck_executors = parts_.executor.stuck();
  capabilities.stores_set_aside = parts_.stores_set_aside;
  capabilities.mount_namespace = MountNamespace();
  capabilities.executor_capabilities = hello.effective_capabilities;
  capabilities.Set(
      "unique-mount-ids", hello.has_unique_mount_ids != 0,
      "the kernel is older than 6.8, or a filter blocks statmount(2), so "
      "mountd compares mount ids that the kernel can reuse");
  capabilities.Set(
      "mount-beneath", hello.has_mount_beneath != 0,
      "the kernel is older than 6.5, so a live mount cannot be replaced");
  capabilities.mount_reserve = parts_.config.limits().mount_reserve;
  capabilities.owed_warning = parts_.config.timeouts().owed_warning;
  capabilities.administrator = access_.PolicyNow().MayAdminister(call.caller);
  capabilities.rules = access_.PolicyNow().MayPrepare(call.caller).has_value();
  AddNetworks(call.caller, &capabilities);
  return capabilities;
}

void CapabilityVerbs::AddNetworks(const Caller& caller,
                                  Capabilities* capabilities) {
  const bool has_bridge = !parts_.config.networks().empty();
  capabilities->network_modes = {"none", "host", "driver"};
  if (has_bridge) {
    capabilities->network_modes.insert(capabilities->network_modes.begin(),
                                       "bridge");
  }
  capabilities->Set("bridge", has_bridge,
                    "the configuration declares no [network.<name>]");
  capabilities->networks = parts_.networks.GetUsage();
  for (const PortRange& range :
       access_.PolicyNow().networks().HostPortsOf(caller)) {
    capabilities->host_ports.push_back(
        {range, parts_.networks.CountFreePorts(range.first, range.last)});
  }
  AddCniNetworks(caller, capabilities);
}

void CapabilityVerbs::AddCniNetworks(const Caller& caller,
                                     Capabilities* capabilities) {
  if (!parts_.config.cni().enabled()) {
    capabilities->Set("cni", false, "the configuration has no [cni] section");
    return;
  }
  if (!access_.PolicyNow().networks().MayBeInSomeCni(caller)) {
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
    if (!access_.PolicyNow().networks().MayUseNetwork(caller, request)) {
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
