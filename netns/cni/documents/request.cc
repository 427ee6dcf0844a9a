// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/documents/request.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "mountd/base/trace_parent.h"
#include "netns/cni/documents/addresses.h"
#include "netns/cni/documents/names.h"

namespace mountd::cni {
namespace {

constexpr std::size_t kMaxArguments = 64;
constexpr std::size_t kMaxPortMappings = 4096;
constexpr std::size_t kMaxDnsTexts = 32;
constexpr std::size_t kMaxIps = 16;
constexpr std::size_t kMaxValid = 8192;
constexpr std::size_t kMaxWordBytes = 255;

std::string ReadArguments(MemberReader& reader) {
  // Plugins fail on arguments that they do not know, unless this is set (CNI's
  // CONVENTIONS.md).
  std::string args = "IgnoreUnknown=1";
  const Json* members = reader.Object("args", kMaxArguments);
  if (members == nullptr) {
    return args;
  }
  for (const auto& [key, value] : members->items()) {
    const auto* text = value.get_ptr<const std::string*>();
    if (!IsArgumentKey(key) || key == "IgnoreUnknown" || text == nullptr ||
        !IsArgumentValue(*text)) {
      reader.Refuse("args",
                    "must have keys of [A-Za-z0-9_.-] and string values "
                    "without ; = or control characters");
      return "";
    }
    args += ";" + key + "=" + *text;
  }
  if (args.size() > kMaxArgsBytes) {
    reader.Refuse("args", "must have at most " + std::to_string(kMaxArgsBytes) +
                              " bytes together");
  }
  return args;
}

// Reads one port that a plugin must bind on the host. Checks it strictly,
// because its parts also become arguments of iptables.
Result<Json> ReadPortMapping(const Json& item) {
  constexpr std::uint64_t kMaxPort = 65535;
  MemberReader reader(item, "port_mappings");
  const std::uint64_t host = reader.Number("hostPort", kMaxPort);
  const std::uint64_t container = reader.Number("containerPort", kMaxPort);
  const std::string protocol = reader.Text("protocol", kMaxWordBytes);
  const std::string host_ip = reader.Text("hostIP", kMaxWordBytes);
  const auto address = ParseIpAddress(host_ip);
  if (host == 0 || container == 0) {
    reader.Refuse("", "needs hostPort and containerPort");
  }
  if (protocol != "tcp" && protocol != "udp" && protocol != "sctp") {
    reader.Refuse("protocol", "must be tcp, udp or sctp");
  }
  if (!host_ip.empty() && !address) {
    reader.Refuse("hostIP", "must be an IP address");
  }
  MOUNTD_TRY(reader.Finish());
  Json mapping = {
      {"hostPort", host}, {"containerPort", container}, {"protocol", protocol}};
  if (address) {
    mapping["hostIP"] = address->text;
  }
  return mapping;
}

Result<void> ReadPortMappings(MemberReader& reader, Json& capabilities) {
  const Json* items = reader.Array("port_mappings", kMaxPortMappings);
  if (items == nullptr || items->empty()) {
    return Ok();
  }
  Json mappings = Json::array();
  for (const Json& item : *items) {
    MOUNTD_ASSIGN(Json mapping, ReadPortMapping(item));
    mappings.push_back(std::move(mapping));
  }
  capabilities["portMappings"] = std::move(mappings);
  return Ok();
}

Result<void> ReadDns(MemberReader& parent, Json& capabilities) {
  const Json* member = parent.Object("dns", 3);
  if (member == nullptr) {
    return Ok();
  }
  MemberReader reader(*member, "dns");
  Json dns = Json::object();
  for (const char* key : {"servers", "searches", "options"}) {
    const auto texts = reader.Texts(key, kMaxDnsTexts, kMaxWordBytes);
    if (!std::all_of(texts.begin(), texts.end(), IsPlainText)) {
      reader.Refuse(key, "must have no control characters");
    }
    if (!texts.empty()) {
      dns[key] = texts;
    }
  }
  for (const std::string& server :
       dns.value("servers", std::vector<std::string>())) {
    if (!ParseIpAddress(server)) {
      reader.Refuse("servers", "must be IP addresses");
    }
  }
  MOUNTD_TRY(reader.Finish());
  if (!dns.empty()) {
    capabilities["dns"] = std::move(dns);
  }
  return Ok();
}

Result<void> ReadBandwidth(MemberReader& parent, Json& capabilities) {
  const Json* member = parent.Object("bandwidth", 4);
  if (member == nullptr) {
    return Ok();
  }
  MemberReader reader(*member, "bandwidth");
  Json bandwidth = Json::object();
  for (const char* key :
       {"ingressRate", "ingressBurst", "egressRate", "egressBurst"}) {
    constexpr auto kMost =
        std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    bandwidth[key] = reader.Number(key, kMost);
  }
  MOUNTD_TRY(reader.Finish());
  capabilities["bandwidth"] = std::move(bandwidth);
  return Ok();
}

void ReadAddresses(MemberReader& reader, Json& capabilities) {
  Json ips = Json::array();
  for (const std::string& text : reader.Texts("ips", kMaxIps, kMaxWordBytes)) {
    const auto cidr = ParseCidr(text);
    const auto address = ParseIpAddress(text);
    if (!cidr && !address) {
      reader.Refuse("ips", "must be IP addresses, with or without a prefix");
      return;
    }
    ips.push_back(cidr ? cidr->ToText() : address->text);
  }
  if (!ips.empty()) {
    capabilities["ips"] = std::move(ips);
  }
  const std::string mac = reader.Text("mac", kMaxWordBytes);
  if (!mac.empty() && !IsMac(mac)) {
    reader.Refuse("mac", "must be six bytes in hex, with colons");
  }
  if (!mac.empty()) {
    capabilities["mac"] = mac;
  }
}

Attachment ReadAttachment(MemberReader& reader) {
  Attachment attachment{reader.Text("container_id", kMaxWordBytes),
                        reader.Text("ifname", kMaxWordBytes)};
  if (!attachment.container_id.empty() &&
      !IsContainerId(attachment.container_id)) {
    reader.Refuse("container_id",
                  "must be up to 128 bytes of [A-Za-z0-9_.-], the first a "
                  "letter or digit");
  }
  if (!attachment.ifname.empty() && !IsInterfaceName(attachment.ifname)) {
    reader.Refuse("ifname", "must be up to 15 bytes of [A-Za-z0-9_.-]");
  }
  return attachment;
}

// Writes the text again, because it goes into the environment of root's
// programs.
std::string ReadTraceParent(MemberReader& reader) {
  const std::string text = reader.Text("traceparent", kMaxWordBytes);
  if (text.empty()) {
    return "";
  }
  const auto parent = ParseTraceParent(text);
  if (!parent) {
    reader.Refuse("traceparent", "must be one of W3C Trace Context");
    return "";
  }
  return ToText(*parent);
}

Result<std::vector<Attachment>> ReadValid(MemberReader& parent) {
  std::vector<Attachment> valid;
  const Json* items = parent.Array("valid", kMaxValid);
  for (std::size_t i = 0; items != nullptr && i < items->size(); ++i) {
    MemberReader reader((*items)[i], "valid");
    Attachment attachment = ReadAttachment(reader);
    if (attachment.container_id.empty() || attachment.ifname.empty()) {
      reader.Refuse("", "needs container_id and ifname");
    }
    MOUNTD_TRY(reader.Finish());
    valid.push_back(std::move(attachment));
  }
  // Sorted, because GC searches by bisection.
  std::sort(valid.begin(), valid.end());
  return valid;
}

}  // namespace

Result<Request> ParseRequest(std::string_view text) {
  MOUNTD_ASSIGN(const Json document,
                ParseObject(text, kRequestBounds, "request"));
  MemberReader reader(document, "request");
  Request request;
  request.network = reader.Text("network", kMaxWordBytes);
  if (!request.network.empty() && !IsNetworkName(request.network)) {
    reader.Refuse("network",
                  "must be up to 128 bytes of [A-Za-z0-9_.-], the first a "
                  "letter or digit");
  }
  request.attachment = ReadAttachment(reader);
  request.args = ReadArguments(reader);
  MOUNTD_TRY(ReadPortMappings(reader, request.capabilities));
  MOUNTD_TRY(ReadDns(reader, request.capabilities));
  MOUNTD_TRY(ReadBandwidth(reader, request.capabilities));
  ReadAddresses(reader, request.capabilities);
  MOUNTD_ASSIGN(request.valid, ReadValid(reader));
  request.earlier_boots = reader.Flag("earlier_boots");
  request.traceparent = ReadTraceParent(reader);
  MOUNTD_TRY(reader.Finish());
  return request;
}

Result<void> CheckAttachment(const Request& request) {
  if (request.network.empty() || request.attachment.container_id.empty() ||
      request.attachment.ifname.empty()) {
    return MakeError(Code::kInvalidArgument, "check", "request",
                     "needs network, container_id and ifname");
  }
  return Ok();
}

}  // namespace mountd::cni
