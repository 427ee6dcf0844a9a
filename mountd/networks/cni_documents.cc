// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/networks/cni_documents.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "mountd/base/operation_trace.h"
#include "mountd/networks/etc_files.h"
#include "mountd/plan/network_plans.h"
#include "mountd/plan/protocols.h"
#include "netns/cni/documents/json.h"
#include "netns/cni/documents/names.h"
#include "netns/cni/documents/plugin_result.h"

namespace mountd {
namespace {

using cni::Json;

constexpr std::size_t kMaxDepth = 40;
constexpr std::size_t kMaxValues = 131'072;
constexpr cni::TextBounds kAnswerBounds{exec::kMaxCniAnswerBytes, kMaxDepth,
                                        kMaxValues};

// Lists each port and protocol separately, because CNI has no ranges.
Json PortMappingsOf(const std::vector<PortMapping>& ports) {
  Json all = Json::array();
  for (const PortMapping& port : ports) {
    for (unsigned i = 0; i < port.count; ++i) {
      for (const auto& [bit, name] : exec::kProtocolNames) {
        if ((port.protocols & bit) == 0) {
          continue;
        }
        Json one = {{"hostPort", port.host_port + i},
                    {"containerPort", port.container_port + i},
                    {"protocol", name}};
        if (port.host_address.family != netns::HostIp::Family::kAny) {
          one["hostIP"] = netns::ToString(port.host_address);
        }
        all.push_back(std::move(one));
      }
    }
  }
  return all;
}

// Puts the plugins into the trace of the current operation, if it has one.
Json Naming(const NetworkRecord& record) {
  Json names = {{"network", record.network},
                {"container_id", record.allocation},
                {"ifname", record.interface}};
  const OperationTrace* const trace = CurrentTrace::Get();
  if (trace != nullptr && trace->traced()) {
    names["traceparent"] = ToText(trace->ParentFor(trace->span_id()));
  }
  return names;
}

Json DnsOf(const DnsSettings& dns) {
  return {{"servers", dns.servers},
          {"searches", dns.searches},
          {"options", dns.options}};
}

Json BandwidthOf(const CniSettings::Bandwidth& bandwidth) {
  return {{"ingressRate", bandwidth.ingress_rate},
          {"ingressBurst", bandwidth.ingress_burst},
          {"egressRate", bandwidth.egress_rate},
          {"egressBurst", bandwidth.egress_burst}};
}

Error NoAnswer(const std::string& why) {
  return MakeError(Code::kInternal, "read", "answer of mountd-cni-run", why);
}

// Returns the error for a result that the runner accepted and mountd cannot
// use.
Error BadResult(const std::string& why) {
  return MakeError(Code::kFailedPrecondition, "ADD", "result", why);
}

Error ErrorOf(const Json& answer) {
  Error error;
  error.code = CodeFromName(cni::FindText(answer, "code").value_or(""));
  error.op = cni::FindText(answer, "op").value_or("run");
  error.object = cni::FindText(answer, "object").value_or("");
  error.detail = cni::FindText(answer, "detail").value_or("");
  if (const auto plugin = cni::FindText(answer, "plugin")) {
    error.detail.insert(0, "plugin " + *plugin + ": ");
    error = WithAway(Away::kPlugin, std::move(error));
  }
  const Json* left = cni::FindMember(answer, "left");
  if (left != nullptr && left->is_array() && !left->empty()) {
    error.detail +=
        "; " + std::to_string(left->size()) + " plugins are not undone yet";
  }
  return error;
}

bool IsTrue(const Json& object, const char* key) {
  const Json* member = cni::FindMember(object, key);
  return member != nullptr && member->is_boolean() && member->get<bool>();
}

Result<Json> ParseAnswer(std::string_view text) {
  MOUNTD_ASSIGN(Json answer, cni::ParseObject(text, kAnswerBounds, "answer"));
  return IsTrue(answer, "ok") ? Result<Json>(std::move(answer))
                              : ErrorOf(answer);
}

template <typename Address>
Address GatewayOf(const cni::PluginResult& result, bool is_ipv6,
                  Result<Address> (*parse)(std::string_view)) {
  for (const cni::ResultIp& ip : result.ips) {
    const Result<Address> gateway = parse(ip.gateway);
    if (ip.address.address.is_ipv6 == is_ipv6 && gateway) {
      return *gateway;
    }
  }
  return {};
}

void ReadAddresses(const cni::NetworkStatus& status, CniResult* result) {
  for (const std::string& text : {status.address, status.address6}) {
    if (const auto ipv4 = netns::ParseIpv4(text)) {
      result->ipv4 = *ipv4;
    } else if (const auto ipv6 = netns::ParseIpv6(text)) {
      result->ipv6 = *ipv6;
    }
  }
}

// Returns the MAC of the interface in the allocation's namespace. The result
// also lists interfaces on the host. Only an interface in a container has a
// sandbox.
std::string MacOf(const cni::PluginResult& result,
                  const std::string& interface) {
  for (const cni::ResultInterface& one : result.interfaces) {
    if (one.name == interface && !one.sandbox.empty()) {
      return cni::IsMac(one.mac) ? one.mac : "";
    }
  }
  return "";
}

// Checks the names too, because they go into a task's resolv.conf if the agent
// set none.
Result<void> ReadDns(const cni::ResultDns& dns, CniResult* result) {
  NetworkFiles files;
  files.dns = {dns.nameservers, dns.search, dns.options};
  // DnsSettings has only a search list, so the domain becomes its first entry.
  if (!dns.domain.empty() && std::find(dns.search.begin(), dns.search.end(),
                                       dns.domain) == dns.search.end()) {
    files.dns.searches.insert(files.dns.searches.begin(), dns.domain);
  }
  if (const Result<void> checked = CheckNetworkFiles(files); !checked) {
    return BadResult(checked.error().object + " " + checked.error().detail);
  }
  result->dns = std::move(files.dns);
  return Ok();
}

bool HasDefaultRoute(const cni::PluginResult& result) {
  return std::any_of(
      result.routes.begin(), result.routes.end(),
      [](const cni::ResultRoute& route) { return route.dst.prefix == 0; });
}

// Calls `each` for every object of the array that has a name.
template <typename F>
void ForEachNamed(const Json& answer, const char* array, const char* name,
                  F each) {
  const Json* items = cni::FindMember(answer, array);
  if (items == nullptr || !items->is_array()) {
    return;
  }
  for (const Json& item : *items) {
    if (const auto found = cni::FindText(item, name)) {
      each(*found, item);
    }
  }
}

}  // namespace

std::string CniAttachmentOf(const NetworkRecord& record) {
  return cni::ToText(Naming(record));
}

std::string CniRequestOf(const NetworkRecord& record) {
  Json request = Naming(record);
  request["port_mappings"] = PortMappingsOf(record.ports);
  request["dns"] = DnsOf(record.files.dns);
  if (!record.cni.args.empty()) {
    request["args"] = record.cni.args;
  }
  if (!record.cni.mac.empty()) {
    request["mac"] = record.cni.mac;
  }
  if (!record.cni.ips.empty()) {
    request["ips"] = record.cni.ips;
  }
  if (record.cni.bandwidth != CniSettings::Bandwidth{}) {
    request["bandwidth"] = BandwidthOf(record.cni.bandwidth);
  }
  return cni::ToText(request);
}

std::string CniStatusRequest(const std::string& network) {
  return cni::ToText(Json{{"network", network}});
}

std::string CniGcRequest(const std::vector<NetworkRecord>& valid) {
  Json list = Json::array();
  for (const NetworkRecord& record : valid) {
    list.push_back(
        {{"container_id", record.allocation}, {"ifname", record.interface}});
  }
  return cni::ToText(Json{{"valid", std::move(list)}});
}

std::string CniEarlierBootsRequest() {
  return cni::ToText(Json{{"earlier_boots", true}});
}

Result<void> ReadCniOutcome(std::string_view text) {
  MOUNTD_TRY(ParseAnswer(text));
  return Ok();
}

Result<CniAttachment> ReadCniAttachment(std::string_view text,
                                        const std::string& interface) {
  MOUNTD_ASSIGN(const Json answer, ParseAnswer(text));
  const Json* document = cni::FindMember(answer, "result");
  if (document == nullptr) {
    return NoAnswer("has no result");
  }
  MOUNTD_ASSIGN(
      const cni::PluginResult result,
      cni::ReadPluginResult(
          *document, cni::FindText(*document, "cniVersion").value_or("")));
  MOUNTD_ASSIGN(const cni::NetworkStatus status,
                cni::StatusOf(result, interface));
  CniAttachment attachment;
  ReadAddresses(status, &attachment.result);
  attachment.result.gateway4 = GatewayOf(result, false, netns::ParseIpv4);
  attachment.result.gateway6 = GatewayOf(result, true, netns::ParseIpv6);
  attachment.result.mac = MacOf(result, interface);
  attachment.default_route = HasDefaultRoute(result);
  MOUNTD_TRY(ReadDns(result.dns, &attachment.result));
  return attachment;
}

Result<CniListing> ReadCniListing(std::string_view text) {
  MOUNTD_ASSIGN(const Json answer, ParseAnswer(text));
  CniListing listing;
  ForEachNamed(answer, "networks", "name",
               [&](const std::string& name, const Json& network) {
                 listing.networks.emplace(
                     name, CniListing::Network{
                               cni::FindText(network, "reason").value_or(""),
                               IsTrue(network, "hasStatus")});
               });
  ForEachNamed(answer, "plugins", "type",
               [&](const std::string& type, const Json& plugin) {
                 listing.plugins.emplace(
                     type, cni::FindText(plugin, "release").value_or(""));
               });
  return listing;
}

}  // namespace mountd
