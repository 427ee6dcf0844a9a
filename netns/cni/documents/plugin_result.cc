// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/documents/plugin_result.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "netns/cni/documents/names.h"

namespace mountd::cni {
namespace {

Error BadResult(const char* member, const char* why) {
  return MakeError(Code::kInvalidArgument, "result", member, why);
}

// Returns the elements of an array; empty if the array is missing.
Result<std::vector<Json>> ItemsOf(const Json& object, const char* key,
                                  std::size_t max_count) {
  const Json* member = FindMember(object, key);
  if (member == nullptr) {
    return std::vector<Json>();
  }
  if (!member->is_array() || member->size() > max_count) {
    return BadResult(key, "must be an array, and not too long");
  }
  return std::vector<Json>(member->begin(), member->end());
}

Result<std::string> WordOf(const Json& object, const char* key) {
  const Json* member = FindMember(object, key);
  if (member == nullptr) {
    return std::string();
  }
  const auto* text = member->get_ptr<const std::string*>();
  if (text == nullptr || text->size() > kMaxResultTextBytes ||
      !IsPlainText(*text)) {
    return BadResult(key, "must be plain text of at most 255 bytes");
  }
  return *text;
}

Result<std::vector<std::string>> WordsOf(const Json& object, const char* key) {
  MOUNTD_ASSIGN(const std::vector<Json> items,
                ItemsOf(object, key, kMaxResultTexts));
  std::vector<std::string> words;
  for (const Json& item : items) {
    MOUNTD_ASSIGN(std::string word, WordOf(Json{{key, item}}, key));
    words.push_back(std::move(word));
  }
  return words;
}

// Returns an address, such as a gateway's; "" if it is missing.
Result<std::string> AddressOf(const Json& object, const char* key) {
  MOUNTD_ASSIGN(const std::string text, WordOf(object, key));
  const auto address = ParseIpAddress(text);
  if (!text.empty() && !address) {
    return BadResult(key, "must be an IP address");
  }
  return address ? address->text : "";
}

Result<Cidr> CidrOf(const Json& object, const char* key) {
  MOUNTD_ASSIGN(const std::string text, WordOf(object, key));
  const auto cidr = ParseCidr(text);
  if (!cidr) {
    return BadResult(key, "must be an IP address with a prefix");
  }
  return *cidr;
}

Result<ResultInterface> ReadInterface(const Json& item) {
  ResultInterface link;
  MOUNTD_ASSIGN(link.name, WordOf(item, "name"));
  MOUNTD_ASSIGN(link.mac, WordOf(item, "mac"));
  MOUNTD_ASSIGN(link.sandbox, WordOf(item, "sandbox"));
  if (link.name.empty()) {
    return BadResult("interfaces", "has an entry without a name");
  }
  if (const Json* mtu = FindMember(item, "mtu")) {
    const auto* number = mtu->get_ptr<const Json::number_unsigned_t*>();
    if (number == nullptr ||
        *number > std::numeric_limits<std::uint32_t>::max()) {
      return BadResult("mtu", "must be a valid MTU");
    }
    link.mtu = *number;
  }
  return link;
}

Result<ResultIp> ReadIp(const Json& item, std::size_t interfaces) {
  ResultIp ip;
  MOUNTD_ASSIGN(ip.address, CidrOf(item, "address"));
  MOUNTD_ASSIGN(ip.gateway, AddressOf(item, "gateway"));
  if (const Json* index = FindMember(item, "interface")) {
    const auto* number = index->get_ptr<const Json::number_unsigned_t*>();
    if (number == nullptr || *number >= interfaces) {
      return BadResult("ips", "has an entry whose interface does not exist");
    }
    ip.interface = *number;
  }
  return ip;
}

Result<ResultRoute> ReadRoute(const Json& item) {
  ResultRoute route;
  MOUNTD_ASSIGN(route.dst, CidrOf(item, "dst"));
  MOUNTD_ASSIGN(route.gw, AddressOf(item, "gw"));
  return route;
}

Result<ResultDns> ReadResultDns(const Json& answer) {
  ResultDns dns;
  const Json* member = FindMember(answer, "dns");
  if (member == nullptr) {
    return dns;
  }
  if (!member->is_object()) {
    return BadResult("dns", "must be an object");
  }
  MOUNTD_ASSIGN(dns.nameservers, WordsOf(*member, "nameservers"));
  MOUNTD_ASSIGN(dns.domain, WordOf(*member, "domain"));
  MOUNTD_ASSIGN(dns.search, WordsOf(*member, "search"));
  MOUNTD_ASSIGN(dns.options, WordsOf(*member, "options"));
  return dns;
}

Json InterfaceToJson(const ResultInterface& link) {
  Json json = {
      {"name", link.name}, {"mac", link.mac}, {"sandbox", link.sandbox}};
  if (link.mtu != 0) {
    json["mtu"] = link.mtu;
  }
  return json;
}

Json IpToJson(const ResultIp& ip) {
  Json json = {{"address", ip.address.ToText()}, {"gateway", ip.gateway}};
  if (ip.interface) {
    json["interface"] = *ip.interface;
  }
  return json;
}

// An interface's name, whether it is in a sandbox, and its addresses.
struct Candidate {
  std::string name;
  bool in_sandbox = false;
  std::vector<const ResultIp*> ips;
};

// Returns the interfaces with their addresses, sorted by name.
std::vector<Candidate> CandidatesOf(const PluginResult& result,
                                    const std::string& ifname) {
  std::vector<Candidate> candidates;
  for (const ResultInterface& link : result.interfaces) {
    candidates.push_back({link.name, !link.sandbox.empty(), {}});
  }
  for (const ResultIp& ip : result.ips) {
    if (ip.interface) {
      candidates[*ip.interface].ips.push_back(&ip);
      continue;
    }
    // Search from the end, to find the interface inside if the host's end has
    // the same name.
    auto own = std::find_if(
        candidates.rbegin(), candidates.rend(),
        [&](const Candidate& candidate) { return candidate.name == ifname; });
    if (own == candidates.rend()) {
      candidates.push_back({ifname, false, {}});
      own = candidates.rbegin();
    }
    own->ips.push_back(&ip);
  }
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.name < b.name; });
  return candidates;
}

NetworkStatus StatusOfCandidate(const Candidate& candidate) {
  NetworkStatus status;
  status.interface = candidate.name;
  for (const ResultIp* ip : candidate.ips) {
    std::string& address =
        ip->address.address.is_ipv6 ? status.address6 : status.address;
    if (address.empty()) {
      address = ip->address.address.text;
    }
  }
  if (status.address.empty()) {
    status.address = status.address6;
  }
  return status;
}

}  // namespace

Result<PluginResult> ReadPluginResult(const Json& answer,
                                      const std::string& version) {
  PluginResult result;
  MOUNTD_ASSIGN(result.version, WordOf(answer, "cniVersion"));
  // A plugin may leave the version out.
  if (result.version.empty()) {
    result.version = version;
  }
  if (result.version != version) {
    return BadResult("cniVersion", "is not the requested version");
  }
  MOUNTD_ASSIGN(const std::vector<Json> interfaces,
                ItemsOf(answer, "interfaces", kMaxResultInterfaces));
  for (const Json& item : interfaces) {
    MOUNTD_ASSIGN(ResultInterface link, ReadInterface(item));
    result.interfaces.push_back(std::move(link));
  }
  MOUNTD_ASSIGN(const std::vector<Json> ips,
                ItemsOf(answer, "ips", kMaxResultIps));
  for (const Json& item : ips) {
    MOUNTD_ASSIGN(ResultIp ip, ReadIp(item, interfaces.size()));
    result.ips.push_back(std::move(ip));
  }
  MOUNTD_ASSIGN(const std::vector<Json> routes,
                ItemsOf(answer, "routes", kMaxResultRoutes));
  for (const Json& item : routes) {
    MOUNTD_ASSIGN(ResultRoute route, ReadRoute(item));
    result.routes.push_back(std::move(route));
  }
  MOUNTD_ASSIGN(result.dns, ReadResultDns(answer));
  return result;
}

Json ToJson(const PluginResult& result) {
  Json json = {{"cniVersion", result.version},
               {"interfaces", Json::array()},
               {"ips", Json::array()},
               {"routes", Json::array()},
               {"dns",
                {{"nameservers", result.dns.nameservers},
                 {"domain", result.dns.domain},
                 {"search", result.dns.search},
                 {"options", result.dns.options}}}};
  for (const ResultInterface& link : result.interfaces) {
    json["interfaces"].push_back(InterfaceToJson(link));
  }
  for (const ResultIp& ip : result.ips) {
    json["ips"].push_back(IpToJson(ip));
  }
  for (const ResultRoute& route : result.routes) {
    json["routes"].push_back({{"dst", route.dst.ToText()}, {"gw", route.gw}});
  }
  return json;
}

Result<NetworkStatus> StatusOf(const PluginResult& result,
                               const std::string& ifname) {
  const std::vector<Candidate> candidates = CandidatesOf(result, ifname);
  for (const bool need_sandbox : {true, false}) {
    for (const Candidate& candidate : candidates) {
      if (!candidate.ips.empty() && (candidate.in_sandbox || !need_sandbox)) {
        return StatusOfCandidate(candidate);
      }
    }
  }
  return MakeError(Code::kFailedPrecondition, "result", ifname,
                   "no interface has an address");
}

}  // namespace mountd::cni
