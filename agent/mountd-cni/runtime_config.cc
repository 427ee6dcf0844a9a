// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/runtime_config.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "agent/mountd-cni/mac_address.h"
#include "agent/mountd-cni/values.h"
#include "netns/cni/documents/addresses.h"
#include "netns/cni/documents/go_json.h"
#include "netns/cni/documents/plugin_result.h"

namespace mountd::cni_plugin {
namespace {

using cni::Json;

// This bound is above mountd's bound of mappings for one allocation.
constexpr std::size_t kMaxMappings = 4096;
constexpr std::size_t kMaxAddresses = 8;
constexpr std::size_t kMaxWordBytes = 64;
constexpr std::uint64_t kMaxPort = 65'535;

std::string LowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return text;
}

Outcome<agent::Port> PortOf(const Json& item) {
  agent::Port port;
  MOUNTD_ASSIGN(const std::uint64_t host,
                NumberAt(item, "hostPort", 0, kMaxPort));
  MOUNTD_ASSIGN(const std::uint64_t container,
                NumberAt(item, "containerPort", 0, kMaxPort));
  MOUNTD_ASSIGN(const std::string protocol,
                TextAt(item, "protocol", "tcp", kMaxWordBytes));
  MOUNTD_ASSIGN(port.host_address, TextAt(item, "hostIP", "", kMaxWordBytes));
  port.host = static_cast<std::uint16_t>(host);
  port.container = static_cast<std::uint16_t>(container);
  port.protocols = protocol.empty() ? "tcp" : LowerCase(protocol);
  if (port.protocols != "tcp" && port.protocols != "udp" &&
      port.protocols != "sctp") {
    return BadConfig("portMappings",
                     "has a protocol that is not tcp, udp or "
                     "sctp");
  }
  if (container == 0) {
    return BadConfig("portMappings", "has an entry without a containerPort");
  }
  const auto address = cni::ParseIpAddress(port.host_address);
  if (!port.host_address.empty() && !address) {
    return BadConfig("portMappings", "has a hostIP that is not an IP address");
  }
  port.host_address = address ? address->text : "";
  return port;
}

Outcome<std::vector<agent::Port>> PortsOf(const Json& runtime) {
  MOUNTD_ASSIGN(const std::vector<Json> items,
                ItemsAt(runtime, "portMappings", kMaxMappings));
  std::vector<agent::Port> ports;
  for (const Json& item : items) {
    if (!item.is_object()) {
      return BadConfig("portMappings", "must be an array of objects");
    }
    MOUNTD_ASSIGN(agent::Port port, PortOf(item));
    // Podman and portmap leave out the host port of a port that is only
    // exposed.
    if (port.host != 0) {
      port.label = std::to_string(ports.size());
      ports.push_back(std::move(port));
    }
  }
  return ports;
}

Outcome<void> AddAddress(const std::string& text, RuntimeConfig* runtime) {
  const auto cidr = cni::ParseCidr(text);
  const auto address = cidr ? cidr->address : cni::ParseIpAddress(text);
  if (!address) {
    return BadConfig("ips", "must be an array of IP addresses");
  }
  // Ignores a prefix, because mountd's networks are routed and need none.
  std::string& place = address->is_ipv6 ? runtime->address6 : runtime->address;
  if (!place.empty() && place != address->text) {
    return BadConfig("ips", "must have at most one address of each family");
  }
  place = address->text;
  return {};
}

Outcome<void> AddAddressesOf(const Json& object, RuntimeConfig* runtime) {
  MOUNTD_ASSIGN(const std::vector<Json> items,
                ItemsAt(object, "ips", kMaxAddresses));
  for (const Json& item : items) {
    const auto* text = item.get_ptr<const std::string*>();
    MOUNTD_TRY(AddAddress(text == nullptr ? "" : *text, runtime));
  }
  return {};
}

// mountd derives a link's MAC address from its IPv4 address, so asking for a
// MAC address asks for that IPv4 address.
Outcome<void> AddMac(const std::string& mac, RuntimeConfig* runtime) {
  if (mac.empty()) {
    return {};
  }
  MOUNTD_ASSIGN(const std::string address, AddressOfMac(mac));
  if (!runtime->address.empty() && runtime->address != address) {
    return BadConfig("mac", mac + " belongs to " + address + ", and " +
                                runtime->address + " is requested");
  }
  runtime->address = address;
  return {};
}

Outcome<void> AddMacOf(const Json& object, RuntimeConfig* runtime) {
  MOUNTD_ASSIGN(const std::string mac,
                TextAt(object, "mac", "", kMaxWordBytes));
  return AddMac(mac, runtime);
}

// Reads addresses in each of the ways in CNI's CONVENTIONS.md.
Outcome<void> ReadAddresses(const Json& document, const Json& capabilities,
                            const Environment& environment,
                            RuntimeConfig* runtime) {
  MOUNTD_ASSIGN(const Json args, ObjectAt(document, "args"));
  MOUNTD_ASSIGN(const Json cni_args, ObjectAt(args, "cni"));
  MOUNTD_ASSIGN(const std::vector<std::string> asked,
                ValuesInArgs(environment.args, "IP"));
  MOUNTD_ASSIGN(const std::vector<std::string> macs,
                ValuesInArgs(environment.args, "MAC"));
  MOUNTD_TRY(AddAddressesOf(capabilities, runtime));
  MOUNTD_TRY(AddAddressesOf(cni_args, runtime));
  for (const std::string& text : asked) {
    MOUNTD_TRY(AddAddress(text, runtime));
  }
  MOUNTD_TRY(AddMacOf(capabilities, runtime));
  MOUNTD_TRY(AddMacOf(cni_args, runtime));
  for (const std::string& text : macs) {
    MOUNTD_TRY(AddMac(text, runtime));
  }
  return {};
}

// Refuses the conventions' other capabilities. A runtime passes them only if
// the configuration declares them, and people would then believe that they have
// an effect.
Outcome<void> CheckCapabilities(const Json& capabilities) {
  constexpr std::array<std::string_view, 4> kKnown = {"portMappings", "ips",
                                                      "dns", "mac"};
  for (const auto& [key, value] : capabilities.items()) {
    const bool is_extension = key.find_first_of("./") != std::string::npos;
    const std::string folded = cni::FoldedName(key);
    if (!value.is_null() && !value.empty() && !is_extension &&
        std::none_of(kKnown.begin(), kKnown.end(), [&](std::string_view known) {
          return cni::FoldedName(known) == folded;
        })) {
      return Failure{cni::kUnsupportedField,
                     "runtimeConfig." + key +
                         " is not supported; remove the capability from the "
                         "network configuration"};
    }
  }
  return {};
}

// Takes the runtime's value if it gives one, otherwise the configuration's.
void PutDns(const Json& configured, const Json& given, const char* key,
            const char* given_key, Json* dns) {
  const Json* own = cni::FindMember(given, given_key);
  const Json* value = own != nullptr ? own : cni::FindMember(configured, key);
  if (value != nullptr) {
    (*dns)[key] = *value;
  }
}

Outcome<Json> DnsOf(const Json& document, const Json& capabilities) {
  MOUNTD_ASSIGN(const Json configured, ObjectAt(document, "dns"));
  MOUNTD_ASSIGN(const Json given, ObjectAt(capabilities, "dns"));
  Json dns = Json::object();
  PutDns(configured, given, "nameservers", "servers", &dns);
  PutDns(configured, Json::object(), "domain", "domain", &dns);
  PutDns(configured, given, "search", "searches", &dns);
  PutDns(configured, given, "options", "options", &dns);
  Json empty;
  if (dns.empty()) {
    return empty;
  }
  const auto read = cni::ReadPluginResult({{"dns", dns}}, "");
  if (!read) {
    return BadConfig("dns", read.error().Message());
  }
  Json checked = cni::ToJson(*read)["dns"];
  return checked;
}

}  // namespace

void MakeUdpOptional(std::vector<agent::Port>* ports) {
  for (agent::Port& port : *ports) {
    const bool has_twin = std::any_of(
        ports->begin(), ports->end(), [&](const agent::Port& other) {
          return other.protocols == "tcp" && other.host == port.host &&
                 other.container == port.container &&
                 other.host_address == port.host_address;
        });
    if (port.protocols == "udp" && has_twin) {
      port.protocols = "udp?";
    }
  }
}

Outcome<RuntimeConfig> ReadRuntimeConfig(const Json& document,
                                         const Environment& environment) {
  RuntimeConfig runtime;
  MOUNTD_ASSIGN(const Json capabilities, ObjectAt(document, "runtimeConfig"));
  MOUNTD_TRY(CheckCapabilities(capabilities));
  MOUNTD_ASSIGN(runtime.ports, PortsOf(capabilities));
  MOUNTD_TRY(ReadAddresses(document, capabilities, environment, &runtime));
  MOUNTD_ASSIGN(runtime.dns, DnsOf(document, capabilities));
  return runtime;
}

}  // namespace mountd::cni_plugin
