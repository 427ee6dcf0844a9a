// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/methods/dict_to_network_request.h"

#include <utility>

#include "mountd/base/names.h"
#include "mountd/plan/protocols.h"

namespace mountd::dbus {
namespace {

std::string ProtocolsText(std::uint8_t protocols) {
  std::string text;
  for (const auto& [bit, name] : exec::kProtocolNames) {
    if ((protocols & bit) != 0) {
      text.append(text.empty() ? "" : "+").append(name);
    }
  }
  return text;
}

struct Protocols {
  std::uint8_t all = 0;      // 0: the text is no list of protocols
  std::uint8_t if_free = 0;  // those of `all` with a ? behind them
};

Protocols ParseProtocols(std::string_view text) {
  unsigned protocols = 0;
  unsigned if_free = 0;
  while (!text.empty()) {
    const std::size_t plus = text.find('+');
    std::string_view word = text.substr(0, plus);
    const bool only_if_free = word.ends_with('?');
    word.remove_suffix(only_if_free ? 1 : 0);
    unsigned bit = 0;
    for (const auto& [value, name] : exec::kProtocolNames) {
      bit = name == word ? unsigned{value} : bit;
    }
    // Refuses a + at the end here, because the loop ends before it sees an
    // empty rest.
    if (bit == 0 || (protocols & bit) != 0 || plus == text.size() - 1) {
      return {};
    }
    protocols |= bit;
    if_free |= only_if_free ? bit : 0;
    text = plus == std::string_view::npos ? "" : text.substr(plus + 1);
  }
  return {static_cast<std::uint8_t>(protocols),
          static_cast<std::uint8_t>(if_free)};
}

template <typename Address>
std::string AddressText(const Address& address) {
  return netns::IsNone(address) ? std::string() : netns::ToString(address);
}

template <typename Address>
void ReadAddress(OptionReader& reader, const std::string& key,
                 Result<Address> (*parse)(std::string_view), Address* out) {
  const auto text = reader.Get<std::string>(key, "");
  if (text.empty()) {
    return;
  }
  const Result<Address> address = parse(text);
  // 0.0.0.0 and :: mean "no address" here, so nobody can ask for them.
  if (!address || netns::IsNone(*address)) {
    reader.Refuse(key, "must be an IP address of the option's family");
    return;
  }
  *out = *address;
}

Result<PortMapping> PortFrom(const PortStruct& port) {
  PortMapping mapping;
  mapping.label = port.get<0>();
  mapping.host_port = port.get<2>();
  mapping.container_port = port.get<3>();
  mapping.count = port.get<4>();
  const Protocols protocols = ParseProtocols(port.get<5>());
  mapping.protocols = protocols.all;
  mapping.if_free = protocols.if_free;
  if (!mapping.label.empty() && !IsValidName(mapping.label)) {
    return MakeError(Code::kInvalidArgument, "check", "port label",
                     "must be a valid name");
  }
  if (mapping.protocols == 0) {
    return MakeError(
        Code::kInvalidArgument, "check", "port " + mapping.label,
        "its protocols must be tcp, udp or sctp, or several joined with +, "
        "each with or without a ? behind it");
  }
  Result<netns::HostIp> host = netns::ParseHostIp(port.get<1>());
  if (!host) {
    return MakeError(Code::kInvalidArgument, "check", "port " + mapping.label,
                     "its host address must be an IP address");
  }
  mapping.host_address = *host;
  return mapping;
}

void ReadFiles(OptionReader& reader, NetworkFiles* files) {
  using Words = std::vector<std::string>;
  files->hostname = reader.Get<std::string>("hostname", "");
  files->dns.servers = reader.Get<Words>("dns_servers", {});
  files->dns.searches = reader.Get<Words>("dns_searches", {});
  files->dns.options = reader.Get<Words>("dns_options", {});
  for (const HostStruct& host :
       reader.Get<std::vector<HostStruct>>("hosts", {})) {
    files->hosts.push_back({host.get<0>(), host.get<1>()});
  }
}

void ReadCni(OptionReader& reader, CniSettings* cni) {
  cni->args = reader.Get<StringMap>("cni_args", {});
  cni->mac = reader.Get<std::string>("mac", "");
  cni->ips = reader.Get<std::vector<std::string>>("ips", {});
  auto& bandwidth = cni->bandwidth;
  const std::map<std::string, std::uint64_t*> rates = {
      {"ingress_rate", &bandwidth.ingress_rate},
      {"ingress_burst", &bandwidth.ingress_burst},
      {"egress_rate", &bandwidth.egress_rate},
      {"egress_burst", &bandwidth.egress_burst}};
  for (const auto& [key, value] :
       reader.Get<std::map<std::string, std::uint64_t>>("bandwidth", {})) {
    const auto rate = rates.find(key);
    if (rate == rates.end()) {
      reader.Refuse("bandwidth", "has an unknown key");
      return;
    }
    *rate->second = value;
  }
}

// Adds only arrays that have elements, because most networks have none and each
// array is a message of its own (dbus/dict/value.h).
void AddNames(const NetworkStatus& status, Dict* dict) {
  const auto add = [&](const char* key, const std::vector<std::string>& words) {
    if (!words.empty()) {
      dict->emplace(key, Value(words));
    }
  };
  add("dns_servers", status.dns.servers);
  add("dns_searches", status.dns.searches);
  add("dns_options", status.dns.options);
  if (!status.mac.empty()) {
    dict->emplace("mac", Value(status.mac));
  }
}

}  // namespace

Result<std::vector<PortMapping>> PortsFrom(
    const std::vector<PortStruct>& ports) {
  std::vector<PortMapping> mappings;
  mappings.reserve(ports.size());
  for (const PortStruct& port : ports) {
    MOUNTD_ASSIGN(PortMapping mapping, PortFrom(port));
    mappings.push_back(std::move(mapping));
  }
  return mappings;
}

Result<NetworkRequest> NetworkRequestFrom(const std::string& mode,
                                          OptionReader& reader) {
  NetworkRequest request;
  std::optional<ParsedMode> known = ParseNetworkMode(mode);
  if (!known) {
    return MakeError(Code::kNotSupported, "set up", "network mode",
                     "must be bridge, none, host, driver or cni/<network>");
  }
  request.mode = known->mode;
  if (request.mode == NetworkMode::kCni) {
    request.network = std::move(known->network);
  } else {
    request.network = reader.Get<std::string>("network", request.network);
  }
  request.interface = reader.Get<std::string>("interface", "");
  ReadAddress(reader, "address", netns::ParseIpv4, &request.ipv4);
  ReadAddress(reader, "address6", netns::ParseIpv6, &request.ipv6);
  request.isolated = reader.Get("isolated", false);
  ReadFiles(reader, &request.files);
  ReadCni(reader, &request.cni);
  if (reader.Has("default_route")) {
    request.default_route = reader.Get("default_route", false);
  }
  return request;
}

Dict ToDict(const NetworkStatus& status) {
  Value::Ports ports;
  ports.reserve(status.ports.size());
  for (const PortMapping& port : status.ports) {
    ports.emplace_back(port.label, netns::ToString(port.host_address),
                       port.host_port, port.container_port, port.count,
                       ProtocolsText(port.protocols));
  }
  Value::Files files;
  for (const NetworkStatus::File& file : status.files) {
    files.emplace_back(ToBytes(file.host_path), file.task_path);
  }
  Dict dict = {
      {"mode", Value(ModeText(status.mode, status.network))},
      {"network", Value(status.network)},
      {"interface", Value(status.interface)},
      {"netns_path", Value(ToBytes(status.netns_path))},
      {"netns_inode", Value(status.netns_inode)},
      {"host_interface", Value(status.host_interface)},
      {"address", Value(AddressText(status.ipv4))},
      {"address6", Value(AddressText(status.ipv6))},
      {"gateway", Value(AddressText(status.gateway4))},
      {"gateway6", Value(AddressText(status.gateway6))},
      {"ports", Value(std::move(ports))},
      {"isolated", Value(status.isolated)},
      {"default_route", Value(status.default_route)},
      {"files", Value(std::move(files))},
  };
  AddNames(status, &dict);
  return dict;
}

}  // namespace mountd::dbus
