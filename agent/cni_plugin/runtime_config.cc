// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/cni_plugin/runtime_config.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "agent/cni_plugin/values.h"
#include "netns/cni/addresses.h"
#include "netns/cni/plugin_result.h"

namespace mountd::cni_plugin {
namespace {

using cni::Json;

// More than mountd takes for one allocation.
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
    return BadConfig("portMappings", "has one without a containerPort");
  }
  const auto address = cni::ParseIpAddress(port.host_address);
  if (!port.host_address.empty() && !address) {
    return BadConfig("portMappings", "has a hostIP that is no address");
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
      return BadConfig("portMappings", "must be objects");
    }
    MOUNTD_ASSIGN(agent::Port port, PortOf(item));
    // Podman and portmap: a port that is only exposed, not mapped.
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
    return BadConfig("ips", "must be IP addresses");
  }
  // A prefix is the network's own business: all is routed.
  std::string& place = address->is_ipv6 ? runtime->address6 : runtime->address;
  if (!place.empty() && place != address->text) {
    return BadConfig("ips", "may be one of each family");
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

Outcome<void> ReadAddresses(const Json& document, const Json& capabilities,
                            const Environment& environment,
                            RuntimeConfig* runtime) {
  MOUNTD_TRY(AddAddressesOf(capabilities, runtime));
  MOUNTD_ASSIGN(const Json args, ObjectAt(document, "args"));
  MOUNTD_ASSIGN(const Json cni_args, ObjectAt(args, "cni"));
  MOUNTD_TRY(AddAddressesOf(cni_args, runtime));
  MOUNTD_ASSIGN(const std::vector<std::string> asked,
                AddressesInArgs(environment.args));
  for (const std::string& text : asked) {
    MOUNTD_TRY(AddAddress(text, runtime));
  }
  return {};
}

// The runtime's own words for it, which go before the configuration's.
void Overlay(const Json& given, const char* key, const char* result_key,
             Json* dns) {
  if (!cni::IsAbsent(given, key)) {
    (*dns)[result_key] = given[key];
  }
}

Outcome<Json> DnsOf(const Json& document, const Json& capabilities) {
  MOUNTD_ASSIGN(Json dns, ObjectAt(document, "dns"));
  MOUNTD_ASSIGN(const Json given, ObjectAt(capabilities, "dns"));
  Overlay(given, "servers", "nameservers", &dns);
  Overlay(given, "searches", "search", &dns);
  Overlay(given, "options", "options", &dns);
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

Outcome<RuntimeConfig> ReadRuntimeConfig(const Json& document,
                                         const Environment& environment) {
  RuntimeConfig runtime;
  MOUNTD_ASSIGN(const Json capabilities, ObjectAt(document, "runtimeConfig"));
  MOUNTD_ASSIGN(runtime.ports, PortsOf(capabilities));
  MOUNTD_TRY(ReadAddresses(document, capabilities, environment, &runtime));
  MOUNTD_ASSIGN(runtime.dns, DnsOf(document, capabilities));
  return runtime;
}

}  // namespace mountd::cni_plugin
