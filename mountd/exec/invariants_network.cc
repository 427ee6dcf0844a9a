// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/exec/invariants_network.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace mountd::exec {
namespace {

Result<void> CheckPort(const PortMap& port) {
  constexpr std::uint32_t kLast = 65'535;
  if (port.host_port == 0 || port.container_port == 0 || port.count == 0 ||
      port.host_port + std::uint32_t{port.count} - 1 > kLast ||
      port.container_port + std::uint32_t{port.count} - 1 > kLast ||
      port.protocols == 0 || (port.protocols & ~kAllProtocols) != 0 ||
      (port.if_free & ~port.protocols) != 0) {
    return Invalid("port");
  }
  const bool named = !netns::IsNone(port.host_address);
  const bool rest_is_zero =
      std::all_of(port.host_address.begin() + 4, port.host_address.end(),
                  [](std::uint8_t byte) { return byte == 0; });
  switch (port.host_family) {
    case 0:
      return named ? Result<void>(Invalid("host address")) : Ok();
    case 4:
      return rest_is_zero ? Ok() : Result<void>(Invalid("host address"));
    case 6:
      return Ok();
    default:
      return Invalid("host family");
  }
}

// Does not check whether a port is named twice, because the kernel refuses such
// a plan.
Result<void> CheckPorts(const std::array<PortMap, kMaxPorts>& ports,
                        std::uint32_t count) {
  if (count > ports.size()) {
    return Invalid("port count");
  }
  std::uint32_t in_all = 0;
  for (const PortMap& port : std::span(ports).first(count)) {
    MOUNTD_TRY(CheckPort(port));
    in_all += port.count;
  }
  return in_all <= kMaxPortsInAll ? Ok() : Result<void>(Invalid("port count"));
}

// Refuses ports that no rule grants, such as the host's sshd's. The executor
// does not know the caller, so it cannot pick the caller's rule.
Result<void> CheckPortsGranted(const NetworkPlan& plan, const Config& config) {
  for (const PortMap& port : std::span(plan.ports).first(plan.port_count)) {
    if (!std::any_of(config.rules.begin(), config.rules.end(),
                     [&](const RuleConfig& rule) {
                       return GrantsPorts(rule, port.host_port, port.count);
                     })) {
      return Invalid(
          "port",
          std::to_string(port.host_port) +
              " is granted by no rule; add it to host_ports in mountd.toml");
    }
  }
  return Ok();
}

// Checks the name as the kernel does (dev_valid_name), and that it has no
// meaning in a path.
Result<void> CheckInterface(const std::array<char, 16>& interface) {
  const std::string_view name(interface.data(),
                              ::strnlen(interface.data(), interface.size()));
  const bool fits = name.size() < interface.size() && IsValidName(name);
  // Every namespace has a lo already.
  return fits && name != "lo" ? Ok() : Result<void>(Invalid("interface"));
}

Result<void> CheckNamespaceAlone(const NetworkPlan& plan) {
  if (plan.network.size != 0 || plan.port_count != 0 || plan.flags != 0 ||
      plan.has_keeper != 0 || plan.origin == NamespaceOrigin::kExisting) {
    return Invalid("network", "must be empty in a mode without network");
  }
  return Ok();
}

Result<void> CheckCniGranted(const CniPlan& plan, const Config& config) {
  return std::any_of(config.rules.begin(), config.rules.end(),
                     [&](const RuleConfig& rule) {
                       return GrantsCniNetwork(rule, plan.network.view());
                     })
             ? Ok()
             : Result<void>(Invalid(
                   "network",
                   "is granted by no rule; add it to networks in mountd.toml"));
}

// Checks a network to inspect or delete. The network may come from an earlier
// config, so it need not be in the current one.
Result<void> CheckNetwork(const NetworkPlan& plan) {
  MOUNTD_TRY(CheckName(plan.allocation, "allocation"));
  switch (plan.origin) {
    case NamespaceOrigin::kNew:
    case NamespaceOrigin::kGiven:
    case NamespaceOrigin::kExisting:
      break;
    default:
      return Invalid("origin");
  }
  if (!netns::HasAddress(plan)) {
    return CheckNamespaceAlone(plan);
  }
  if ((plan.flags & ~kAllNetworkFlags) != 0) {
    return Invalid("flags");
  }
  if (plan.has_keeper > 1) {
    return Invalid("keeper");
  }
  MOUNTD_TRY(CheckName(plan.network, "network"));
  MOUNTD_TRY(CheckInterface(plan.interface));
  return CheckPorts(plan.ports, plan.port_count);
}

// Checks a network to make or repair. The current config must declare its
// addresses and grant its ports.
Result<void> CheckNetworkToMake(const NetworkPlan& plan, const Config& config) {
  MOUNTD_TRY(CheckNetwork(plan));
  if (!netns::HasAddress(plan)) {
    return Ok();
  }
  MOUNTD_TRY(CheckPortsGranted(plan, config));
  const auto network = config.networks.find(std::string(plan.network.view()));
  if (network == config.networks.end()) {
    return Invalid("network", "is not declared in mountd.toml");
  }
  // A missing address is no error. A network that has only IPv6 stays so, even
  // if the configuration later declares an IPv4 range.
  if (!netns::IsNone(plan.ipv4) &&
      netns::RangeOf(network->second.ipv4, plan.ipv4) == nullptr) {
    return Invalid("ipv4", "is not an address of the network");
  }
  if (!netns::IsNone(plan.ipv6) &&
      netns::RangeOf(network->second.ipv6, plan.ipv6) == nullptr) {
    return Invalid("ipv6", "is not an address of the network");
  }
  return Ok();
}

// Checks the ports of a plan that asks about ports and maps none. The current
// config must grant them.
Result<void> CheckPortsToAskFor(const NetworkPlan& plan, const Config& config) {
  MOUNTD_TRY(CheckName(plan.allocation, "allocation"));
  if (plan.has_keeper > 1) {
    return Invalid("keeper");
  }
  MOUNTD_TRY(CheckPorts(plan.ports, plan.port_count));
  return CheckPortsGranted(plan, config);
}

// Checks a namespace to open. mountd has a record of it, so the plan has its
// inode. All fields that this plan does not use must be empty.
Result<void> CheckNamespaceToOpen(const NetworkPlan& plan) {
  MOUNTD_TRY(CheckName(plan.allocation, "allocation"));
  if (plan.netns_inode == 0) {
    return Invalid("netns_inode");
  }
  if (plan.origin != NamespaceOrigin::kExisting) {
    return Invalid("origin");
  }
  if (plan.network.size != 0 || plan.port_count != 0 || plan.flags != 0 ||
      plan.has_keeper != 0 || plan.may_be_hosts != 0 ||
      netns::HasAddress(plan)) {
    return Invalid("network", "must be empty");
  }
  return Ok();
}

// Checks new ports of an existing network. No rule has to grant the old ports,
// because the plan only removes them.
Result<void> CheckPortsToUpdate(const PortsPlan& plan, const Config& config) {
  const NetworkPlan& network = plan.network;
  if (!netns::HasAddress(network)) {
    return Invalid("network", "must have an address to map ports to");
  }
  if (network.origin != NamespaceOrigin::kExisting) {
    return Invalid("origin");
  }
  if (network.netns_inode == 0) {
    return Invalid("netns_inode");
  }
  if (network.has_keeper != 0 || network.may_be_hosts != 0) {
    return Invalid("keeper");
  }
  MOUNTD_TRY(CheckNetworkToMake(network, config));
  return CheckPorts(plan.old_ports, plan.old_count);
}

Result<void> CheckNetworkFile(const NetworkFilePlan& plan) {
  MOUNTD_TRY(CheckName(plan.allocation, "allocation"));
  switch (plan.kind) {
    case NetworkFileKind::kHosts:
    case NetworkFileKind::kHostname:
    case NetworkFileKind::kResolvConf:
      return Ok();
  }
  return Invalid("kind");
}

// Checks a CNI operation. For an ADD some rule of the current config must grant
// the network.
Result<void> CheckCni(const CniPlan& plan, const Config& config) {
  switch (plan.verb) {
    case CniVerb::kGc:
    case CniVerb::kList:
      return Ok();
    case CniVerb::kStatus:
      MOUNTD_TRY(CheckName(plan.network, "network"));
      return CheckCniGranted(plan, config);
    case CniVerb::kAdd:
    case CniVerb::kCheck:
    case CniVerb::kDel:
      break;
    default:
      return Invalid("verb");
  }
  MOUNTD_TRY(CheckName(plan.allocation, "allocation"));
  MOUNTD_TRY(CheckName(plan.network, "network"));
  if (plan.verb != CniVerb::kAdd) {
    // DEL needs no grant, because only an earlier config may have granted the
    // network.
    return Ok();
  }
  if (plan.netns_inode == 0) {
    return Invalid("netns_inode");
  }
  return CheckCniGranted(plan, config);
}

Result<void> CheckNetworkWatch(const NetworkWatchPlan& plan) {
  return plan.kind == NetworkWatchKind::kLinks ||
                 plan.kind == NetworkWatchKind::kRuleset
             ? Ok()
             : Result<void>(Invalid("kind"));
}

}  // namespace

Result<void> CheckName(const WireName& name, const char* field) {
  if (name.size > name.bytes.size() || !IsValidName(name.view())) {
    return Invalid(field, "is not a valid name");
  }
  return Ok();
}

Result<void> CheckNetworkRequest(const Request& request, const Config& config) {
  const PlanBody& body = request.body;
  switch (request.kind) {
    case PlanKind::kPrepareNetworks:
    case PlanKind::kListNetworks:
      return Ok();
    case PlanKind::kCreateNetwork:
    case PlanKind::kRepairNetwork:
      return CheckNetworkToMake(body.network, config);
    case PlanKind::kCheckHostPorts:
      return CheckPortsToAskFor(body.network, config);
    case PlanKind::kUpdatePorts:
      return CheckPortsToUpdate(body.ports, config);
    case PlanKind::kOpenNamespace:
      return CheckNamespaceToOpen(body.network);
    case PlanKind::kDeleteNetwork:
    case PlanKind::kInspectNetwork:
      return CheckNetwork(body.network);
    case PlanKind::kWriteNetworkFile:
      return CheckNetworkFile(body.network_file);
    case PlanKind::kRemoveNetworkFiles:
      return CheckName(body.network_file.allocation, "allocation");
    case PlanKind::kRunCni:
      return CheckCni(body.cni, config);
    case PlanKind::kWatchNetworks:
      return CheckNetworkWatch(body.network_watch);
    default:
      return Invalid("kind");
  }
}

}  // namespace mountd::exec
