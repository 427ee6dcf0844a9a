// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/result.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "netns/cni/documents/go_json.h"
#include "netns/cni/documents/plugin_result.h"

namespace mountd::cni_plugin {
namespace {

using cni::Json;

struct Family {
  const std::string& address;
  const std::string& gateway;
  const char* prefix;  // routed: no other host is on the link
  const char* everywhere;
  const char* version;
};

std::array<Family, 2> FamiliesOf(const agent::NetworkStatus& status) {
  return {{{status.address, status.gateway, "/32", "0.0.0.0/0", "4"},
           {status.address6, status.gateway6, "/128", "::/0", "6"}}};
}

Json InterfaceOf(const std::string& name, const std::string& mac,
                 const std::string& sandbox) {
  Json link = {{"name", name}};
  if (!mac.empty()) {
    link["mac"] = mac;
  }
  if (!sandbox.empty()) {
    link["sandbox"] = sandbox;
  }
  return link;
}

Json IpOf(const Family& family, std::size_t interface,
          const std::string& version) {
  Json ip = {{"address", family.address + family.prefix},
             {"interface", interface}};
  if (!family.gateway.empty()) {
    ip["gateway"] = family.gateway;
  }
  // 1.0.0 removed the member.
  if (version.starts_with("0.")) {
    ip["version"] = family.version;
  }
  return ip;
}

void AddFamily(const Family& family, std::size_t interface, bool default_route,
               const std::string& version, Json* result) {
  if (family.address.empty()) {
    return;
  }
  (*result)["ips"].push_back(IpOf(family, interface, version));
  if (default_route && !family.gateway.empty()) {
    (*result)["routes"].push_back(
        {{"dst", family.everywhere}, {"gw", family.gateway}});
  }
}

Failure Differs(const std::string& what) {
  return FailureOf(
      MakeError(Code::kFailedPrecondition, "check", "attachment", what));
}

// Returns the index of the container's end in prevResult's interfaces.
std::optional<std::size_t> FindEnd(const cni::PluginResult& result,
                                   const Environment& environment) {
  for (std::size_t i = 0; i < result.interfaces.size(); ++i) {
    if (result.interfaces[i].name == environment.ifname &&
        result.interfaces[i].sandbox == environment.netns) {
      return i;
    }
  }
  return std::nullopt;
}

bool HasAddress(const cni::PluginResult& result, std::size_t interface,
                const std::string& address) {
  return address.empty() ||
         std::any_of(result.ips.begin(), result.ips.end(),
                     [&](const cni::ResultIp& ip) {
                       return ip.interface == interface &&
                              ip.address.address.text == address;
                     });
}

}  // namespace

namespace {

// Returns the member under CNI's own spelling of its name, and removes other
// spellings.
Json& OwnMember(Json* object, const char* key, Json absent) {
  const Json* found = cni::FindMember(*object, key);
  Json value = found == nullptr ? std::move(absent) : *found;
  const std::string folded = cni::FoldedName(key);
  for (auto at = object->begin(); at != object->end();) {
    at = cni::FoldedName(at.key()) == folded ? object->erase(at) : ++at;
  }
  return (*object)[key] = std::move(value);
}

}  // namespace

Json PassedOn(const Config& config) {
  Json result = config.prev_result;
  if (result.is_null()) {
    result = Json::object();
  }
  OwnMember(&result, "cniVersion", nullptr) = config.version;
  return result;
}

Json ResultOf(const agent::NetworkStatus& status,
              const Environment& environment, const Config& config,
              const Macs& macs) {
  Json result = PassedOn(config);
  for (const char* key : {"interfaces", "ips", "routes"}) {
    OwnMember(&result, key, Json::array());
  }
  result["interfaces"].push_back(
      InterfaceOf(status.host_interface, macs.host, ""));
  const std::size_t own = result["interfaces"].size();
  result["interfaces"].push_back(
      InterfaceOf(environment.ifname, macs.container, environment.netns));
  for (const Family& family : FamiliesOf(status)) {
    AddFamily(family, own, status.default_route, config.version, &result);
  }
  Json& dns = OwnMember(&result, "dns", Json::object());
  if (!config.runtime.dns.is_null()) {
    dns = config.runtime.dns;
  }
  return result;
}

Outcome<void> CheckResult(const agent::NetworkStatus& status,
                          const Environment& environment, const Config& config,
                          std::uint64_t netns_inode) {
  if (status.netns_inode != netns_inode) {
    return Differs("CNI_NETNS is another namespace than mountd set up");
  }
  if (status.network != config.network || status.isolated != config.isolated) {
    return Differs("mountd set it up with another network or isolation");
  }
  const auto result = cni::ReadPluginResult(config.prev_result, config.version);
  const auto end =
      result ? FindEnd(*result, environment) : std::optional<std::size_t>();
  if (!end) {
    return Differs("prevResult lacks the container's interface");
  }
  for (const Family& family : FamiliesOf(status)) {
    if (!HasAddress(*result, *end, family.address)) {
      return Differs("prevResult lacks " + family.address);
    }
  }
  return {};
}

}  // namespace mountd::cni_plugin
