// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/policy/network_policy.h"

#include <algorithm>

#include "mountd/networks/network_request.h"

namespace mountd {

Result<void> NetworkPolicy::MayUseNetwork(const Caller& caller,
                                          const NetworkRequest& request) const {
  if (request.mode == NetworkMode::kBridge) {
    MOUNTD_TRY(MayBeIn(caller, request.network));
  }
  if (request.mode == NetworkMode::kCni) {
    MOUNTD_TRY(MayBeInCni(caller, request.network));
  }
  for (const PortMapping& port : request.ports) {
    const bool allowed = rules_.Any(caller, [&](const RuleConfig& rule) {
      return GrantsPorts(rule, port.host_port, port.count);
    });
    if (!allowed) {
      return rules_.Denied(
          "map", "host port " + std::to_string(port.host_port),
          "no rule grants it to this user; add it to host_ports in "
          "mountd.toml");
    }
  }
  return Ok();
}

Result<void> NetworkPolicy::MayBeIn(const Caller& caller,
                                    const std::string& network) const {
  if (!rules_.config().networks.contains(network)) {
    return MakeError(Code::kNotFound, "set up", "network " + network,
                     "is not declared in mountd.toml");
  }
  if (!rules_.Any(caller, [&](const RuleConfig& rule) {
        return Lists(rule.networks, network);
      })) {
    return rules_.Denied(
        "set up", "network " + network,
        "no rule grants it to this user; add it to networks in mountd.toml");
  }
  return Ok();
}

Result<void> NetworkPolicy::MayBeInCni(const Caller& caller,
                                       const std::string& network) const {
  const std::string object = "network " + ModeText(NetworkMode::kCni, network);
  if (!rules_.config().cni.enabled()) {
    return MakeError(
        Code::kNotSupported, "set up", object,
        "the configuration has no [cni] section, which CNI networks need");
  }
  if (!rules_.Any(caller, [&](const RuleConfig& rule) {
        return GrantsCniNetwork(rule, network);
      })) {
    return rules_.Denied(
        "set up", object,
        "no rule grants it to this user; add it to networks in mountd.toml");
  }
  return Ok();
}

bool NetworkPolicy::MayBeInSomeCni(const Caller& caller) const {
  return rules_.Any(caller, [](const RuleConfig& rule) {
    return std::any_of(
        rule.networks.begin(), rule.networks.end(),
        [](const std::string& name) { return name.starts_with(kCniPrefix); });
  });
}

std::vector<PortRange> NetworkPolicy::HostPortsOf(const Caller& caller) const {
  std::vector<PortRange> ranges;
  for (const RuleConfig& rule : rules_.config().rules) {
    if (PolicyRules::Matches(rule, caller)) {
      ranges.insert(ranges.end(), rule.host_ports.begin(),
                    rule.host_ports.end());
    }
  }
  return ranges;
}

bool NetworkPolicy::MayPassHostNamespaces(const Caller& caller) const {
  return rules_.Any(
      caller, [](const RuleConfig& rule) { return rule.host_namespaces; });
}

}  // namespace mountd
