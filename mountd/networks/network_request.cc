// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/networks/network_request.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "mountd/base/names.h"
#include "mountd/base/paths.h"
#include "mountd/config/config.h"
#include "mountd/plan/network_plans.h"
#include "netns/cni/documents/addresses.h"
#include "netns/cni/documents/names.h"

namespace mountd {
namespace {

// "cni" alone is only for error texts. Requests and answers have "cni/NAME".
constexpr std::array<std::pair<NetworkMode, const char*>, 5> kModes = {{
    {NetworkMode::kCni, "cni"},
    {NetworkMode::kNone, "none"},
    {NetworkMode::kHost, "host"},
    {NetworkMode::kBridge, "bridge"},
    {NetworkMode::kDriver, "driver"},
}};

constexpr netns::Ipv6 kIpv6Loopback = {0, 0, 0, 0, 0, 0, 0, 0,
                                       0, 0, 0, 0, 0, 0, 0, 1};
constexpr std::size_t kMaxInterfaceBytes = 15;  // IFNAMSIZ without the NUL

const char* NameOf(NetworkMode mode) {
  for (const auto& [value, name] : kModes) {
    if (value == mode) {
      return name;
    }
  }
  return "";
}

Error BadRequest(const std::string& object, const std::string& why) {
  return MakeError(Code::kInvalidArgument, "set up", object, why);
}

Result<void> NormalisePort(PortMapping* port) {
  constexpr std::uint32_t kLast = 65'535;
  const std::string object = "port " + port->label;
  if (port->host_port == 0 || port->protocols == 0 || port->count == 0) {
    return BadRequest(object, "needs a host port, a protocol and a count");
  }
  if (port->container_port == 0) {
    port->container_port = port->host_port;
  }
  if (port->host_port + port->count - 1U > kLast ||
      port->container_port + port->count - 1U > kLast) {
    return BadRequest(object, "ends above 65535");
  }
  if (port->host_address.family == netns::HostIp::Family::kIpv6 &&
      port->host_address.bytes == kIpv6Loopback) {
    return MakeError(
        Code::kNotSupported, "map", object,
        "[::1] cannot be mapped, because the kernel has no route from ::1 to "
        "an allocation; use 127.0.0.1 or another address");
  }
  return Ok();
}

Result<void> NormalisePorts(std::vector<PortMapping>* ports) {
  std::uint32_t in_all = 0;
  for (PortMapping& port : *ports) {
    MOUNTD_TRY(NormalisePort(&port));
    in_all += port.count;
  }
  if (ports->size() > exec::kMaxPorts || in_all > exec::kMaxPortsInAll) {
    return MakeError(Code::kResourceExhausted, "map", "ports",
                     "too many; the limits are " +
                         std::to_string(exec::kMaxPorts) + " mappings and " +
                         std::to_string(exec::kMaxPortsInAll) +
                         " ports per allocation");
  }
  return Ok();
}

Result<void> NormaliseInterface(NetworkRequest* request) {
  if (!HasInterface(request->mode)) {
    if (!request->interface.empty()) {
      return BadRequest("interface", std::string("must be empty in mode ") +
                                         NameOf(request->mode));
    }
    request->interface = kLoopbackInterface;
    return Ok();
  }
  if (request->interface.empty()) {
    request->interface = netns::kAllocationLink;
  }
  const bool valid = request->interface.size() <= kMaxInterfaceBytes &&
                     IsValidName(request->interface) &&
                     request->interface != kLoopbackInterface;
  return valid ? Ok()
               : Result<void>(BadRequest(
                     "interface",
                     "must be a name of 1 to 15 bytes, but not \"lo\""));
}

// Refuses ports, and settings for mountd's own networks or for CNI's plugins,
// if the mode has no use for them.
Result<void> CheckFitsMode(const NetworkRequest& request) {
  const std::string mode = std::string("mode ") + NameOf(request.mode);
  const bool asks_mountd = !netns::IsNone(request.ipv4) ||
                           !netns::IsNone(request.ipv6) || request.isolated ||
                           request.default_route;
  if (request.mode != NetworkMode::kBridge && asks_mountd) {
    return BadRequest(mode,
                      "takes no address and no route; leave these options out");
  }
  if (request.mode != NetworkMode::kCni && request.cni != CniSettings{}) {
    return BadRequest(
        mode,
        "takes no options for a CNI plugin; leave them out or use a "
        "cni/NAME mode");
  }
  if (!HasInterface(request.mode) && HasNamespace(request.mode) &&
      !request.ports.empty()) {
    return BadRequest(
        mode,
        "has no address to map ports to; leave the ports out or use "
        "mode bridge");
  }
  const bool some_if_free =
      std::any_of(request.ports.begin(), request.ports.end(),
                  [](const PortMapping& port) { return port.if_free != 0; });
  if (request.mode != NetworkMode::kBridge && some_if_free) {
    return BadRequest(mode,
                      "maps no port only if it is free; leave the ? out or use "
                      "mode bridge");
  }
  return Ok();
}

// Returns the record's files. If the request has no DNS settings, those of the
// CNI plugins' answer count.
NetworkFiles AllFilesOf(const NetworkRecord& record) {
  NetworkFiles files = record.files;
  if (record.cni_result.makes_resolv_conf) {
    files.dns = record.cni_result.dns;
  }
  return files;
}

bool IsCni(const NetworkRecord& record) {
  return record.mode == NetworkMode::kCni;
}

void SetAddresses(const NetworkRecord& record, NetworkStatus* status) {
  if (IsCni(record)) {
    status->ipv4 = record.cni_result.ipv4;
    status->ipv6 = record.cni_result.ipv6;
    status->gateway4 = record.cni_result.gateway4;
    status->gateway6 = record.cni_result.gateway6;
    status->mac = record.cni_result.mac;
    return;
  }
  status->ipv4 = record.ipv4;
  status->ipv6 = record.ipv6;
  if (netns::HasAddress(record)) {
    status->host_interface = netns::LinkNameOf(record);
  }
  if (!netns::IsNone(record.ipv4)) {
    status->gateway4 = netns::kGateway4;
  }
  if (!netns::IsNone(record.ipv6)) {
    status->gateway6 = netns::kGateway6;
  }
}

void SetNames(const NetworkRecord& record, NetworkStatus* status) {
  for (const NetworkFile& file : FilesOf(record)) {
    status->files.push_back(
        {paths::NetworkFile(record.allocation, file.name), file.task_path});
  }
  status->dns =
      record.files.dns.empty() ? record.cni_result.dns : record.files.dns;
}

}  // namespace

bool HasInterface(NetworkMode mode) {
  return mode == NetworkMode::kBridge || mode == NetworkMode::kCni;
}

bool HasNamespace(NetworkMode mode) { return mode != NetworkMode::kHost; }

std::string ModeText(NetworkMode mode, const std::string& network) {
  return mode == NetworkMode::kCni ? std::string(kCniPrefix) + network
                                   : NameOf(mode);
}

std::optional<ParsedMode> ParseNetworkMode(std::string_view text) {
  if (text.starts_with(kCniPrefix)) {
    text.remove_prefix(kCniPrefix.size());
    return ParsedMode{NetworkMode::kCni, std::string(text)};
  }
  for (const auto& [value, name] : kModes) {
    if (text == name && value != NetworkMode::kCni) {
      return ParsedMode{value};
    }
  }
  return std::nullopt;
}

bool HasFiles(const NetworkRecord& record) {
  return !AllFilesOf(record).empty();
}

std::vector<NetworkFile> FilesOf(const NetworkRecord& record) {
  return IsCni(record) ? TextsOf(AllFilesOf(record), record.cni_result.ipv4,
                                 record.cni_result.ipv6)
                       : TextsOf(record.files, record.ipv4, record.ipv6);
}

NetworkStatus StatusOf(const NetworkRecord& record) {
  NetworkStatus status;
  status.mode = record.mode;
  status.network = record.network;
  if (HasNamespace(record.mode)) {
    status.netns_path = std::string(paths::kNetnsDir) + "/" + record.allocation;
  }
  status.netns_inode = record.netns_inode;
  status.interface = record.interface;
  SetAddresses(record, &status);
  status.ports = record.ports;
  status.isolated = (record.flags & exec::kIsolated) != 0;
  status.default_route = (record.flags & exec::kDefaultRoute) != 0;
  SetNames(record, &status);
  return status;
}

namespace {

// Checks for everything that mountd-cni-run would refuse, before mountd makes
// an object.
Result<void> CheckCniSettings(const NetworkRequest& request) {
  constexpr std::size_t kMaxArguments = 64;
  constexpr std::size_t kMaxIps = 16;
  constexpr auto kMostBits =
      std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  const CniSettings& cni = request.cni;
  if (!cni::IsInterfaceName(request.interface)) {
    return BadRequest("interface", "must be up to 15 bytes of [A-Za-z0-9_.-]");
  }
  if (cni.args.size() > kMaxArguments ||
      !std::all_of(cni.args.begin(), cni.args.end(), [](const auto& entry) {
        return cni::IsArgumentKey(entry.first) &&
               entry.first != "IgnoreUnknown" &&
               cni::IsArgumentValue(entry.second);
      })) {
    return BadRequest(
        "cni_args",
        "must be up to 64 keys of [A-Za-z0-9_.-], whose values have "
        "no ; = or control characters");
  }
  if (!cni.mac.empty() && !cni::IsMac(cni.mac)) {
    return BadRequest("mac", "must be six bytes in hex, with colons");
  }
  if (cni.ips.size() > kMaxIps ||
      !std::all_of(cni.ips.begin(), cni.ips.end(), [](const auto& ip) {
        return cni::ParseCidr(ip) || cni::ParseIpAddress(ip);
      })) {
    return BadRequest(
        "ips", "must be up to 16 IP addresses, with or without a prefix");
  }
  const CniSettings::Bandwidth& rates = cni.bandwidth;
  if (std::max({rates.ingress_rate, rates.ingress_burst, rates.egress_rate,
                rates.egress_burst}) > kMostBits) {
    return BadRequest("bandwidth", "is too large");
  }
  return Ok();
}

}  // namespace

Result<NetworkRequest> Normalised(NetworkRequest request) {
  MOUNTD_TRY(NormaliseInterface(&request));
  MOUNTD_TRY(NormalisePorts(&request.ports));
  MOUNTD_TRY(CheckNetworkFiles(request.files));
  MOUNTD_TRY(CheckFitsMode(request));
  if (request.mode == NetworkMode::kCni) {
    MOUNTD_TRY(CheckCniSettings(request));
  }
  if (!HasInterface(request.mode)) {
    request.network.clear();
  }
  return request;
}

std::vector<PortMapping> AsAskedFor(std::vector<PortMapping> ports) {
  for (PortMapping& port : ports) {
    port.protocols = static_cast<std::uint8_t>(port.protocols | port.if_free);
  }
  return ports;
}

bool IsSame(const NetworkRecord& record, const NetworkRequest& request) {
  const auto as_asked = [](const auto& asked, const auto& is) {
    return netns::IsNone(asked) || asked == is;
  };
  const bool default_route = (record.flags & exec::kDefaultRoute) != 0;
  return record.mode == request.mode && record.network == request.network &&
         AsAskedFor(record.ports) == request.ports &&
         record.files == request.files && record.cni == request.cni &&
         as_asked(request.ipv4, record.ipv4) &&
         as_asked(request.ipv6, record.ipv6) &&
         ((record.flags & exec::kIsolated) != 0) == request.isolated &&
         request.default_route.value_or(default_route) == default_route;
}

namespace {

// Checks the request without regard to other networks.
Result<void> CheckAlone(const std::string& allocation,
                        const NetworkRequest& request,
                        const GivenNetns& given) {
  if (request.mode == NetworkMode::kCni &&
      !(cni::IsContainerId(allocation) &&
        cni::IsNetworkName(request.network))) {
    return BadRequest(
        "network of " + allocation,
        "CNI needs an allocation's name that begins with a letter "
        "or digit and has no brackets");
  }
  const bool takes_one =
      HasInterface(request.mode) || request.mode == NetworkMode::kDriver;
  if (given.valid() && !takes_one) {
    return BadRequest(std::string("mode ") + NameOf(request.mode),
                      "takes no namespace (netns); leave it out");
  }
  if (request.mode == NetworkMode::kDriver && !given.valid()) {
    return BadRequest("mode driver",
                      "needs the driver's namespace in the option netns");
  }
  return Ok();
}

// Returns why the request cannot be combined with the allocation's network
// `other`; nullptr if it can.
const char* ReasonAgainst(const NetworkRequest& request,
                          const GivenNetns& given, const NetworkRecord& other) {
  if (HasNamespace(other.mode) != HasNamespace(request.mode)) {
    return "the allocation cannot use the host's namespace and its own at once";
  }
  if (given.valid() && given.inode != other.netns_inode) {
    return "the allocation already has another namespace";
  }
  if (other.interface == request.interface) {
    return nullptr;
  }
  if (request.mode == NetworkMode::kBridge &&
      other.network == request.network) {
    // Each of both interfaces would have a route to the same range.
    return "the allocation is already in that network with another interface";
  }
  return !request.files.empty() && HasFiles(other)
             ? "another network of the allocation already set its names and "
               "resolvers"
             : nullptr;
}

}  // namespace

Result<void> CheckGoesWith(const std::string& allocation,
                           const NetworkRequest& request,
                           const GivenNetns& given,
                           const std::vector<NetworkRecord>& others) {
  const auto refuse = [&](const char* why) {
    return MakeError(Code::kFailedPrecondition, "set up",
                     "network of " + allocation, why);
  };
  MOUNTD_TRY(CheckAlone(allocation, request, given));
  for (const NetworkRecord& other : others) {
    if (const char* const why = ReasonAgainst(request, given, other)) {
      return refuse(why);
    }
  }
  // A mode without an interface is about the whole namespace, so an allocation
  // in such a mode has no other network.
  const bool is_there = std::any_of(
      others.begin(), others.end(), [&](const NetworkRecord& other) {
        return other.interface == request.interface;
      });
  if (!HasInterface(request.mode) && !others.empty() && !is_there) {
    return refuse("the allocation already has a network; tear it down first");
  }
  return Ok();
}

}  // namespace mountd
