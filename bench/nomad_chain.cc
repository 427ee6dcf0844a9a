// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/nomad_chain.h"

#include <utility>

#include "bench/network_way.h"
#include "bench/programs.h"

namespace mountd::bench {
namespace {

using Json = nlohmann::json;

// The same list as Nomad's conflist.
constexpr char kConflist[] = R"([
  {"type": "loopback"},
  {"type": "bridge", "bridge": "nomad", "ipMasq": true, "isGateway": true,
   "forceAddress": true, "hairpinMode": false,
   "ipam": {"type": "host-local",
            "ranges": [[{"subnet": "172.26.64.0/20"}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": "/var/run/cni"}},
  {"type": "firewall", "backend": "iptables",
   "iptablesAdminChainName": "NOMAD-ADMIN"},
  {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true}
])";

Json Mappings(const std::vector<std::uint16_t>& ports) {
  Json mappings = Json::array();
  for (const std::uint16_t port : ports) {
    for (const char* protocol : {"tcp", "udp"}) {
      mappings.push_back({{"hostPort", port},
                          {"containerPort", ContainerPort(port)},
                          {"protocol", protocol},
                          {"hostIP", ""}});
    }
  }
  return mappings;
}

}  // namespace

NomadChain::NomadChain(std::string directory,
                       std::vector<std::string> environment)
    : directory_(std::move(directory)),
      environment_(std::move(environment)),
      plugins_(Json::parse(kConflist)) {}

std::string NomadChain::PathOf(const std::string& plugin) const {
  return directory_ + "/" + plugin;
}

std::vector<std::string> NomadChain::Programs() const {
  std::vector<std::string> programs = {PathOf("host-local")};
  for (const Json& plugin : plugins_) {
    programs.push_back(PathOf(plugin["type"]));
  }
  return programs;
}

Result<void> NomadChain::Add(const std::string& netns,
                             const std::vector<std::uint16_t>& ports) {
  mappings_ = Mappings(ports);
  result_ = nullptr;
  for (const Json& plugin : plugins_) {
    MOUNTD_ASSIGN(const std::string answer, Call("ADD", plugin, netns));
    result_ = Json::parse(answer, nullptr, false);
  }
  return Ok();
}

Result<void> NomadChain::Delete(const std::string& netns) {
  for (auto plugin = plugins_.rbegin(); plugin != plugins_.rend(); ++plugin) {
    MOUNTD_TRY(Call("DEL", *plugin, netns));
  }
  return Ok();
}

// Passes what libcni passes: the plugin's own part of the list, the list's
// name and version, the capabilities that the plugin declares, and the result
// so far.
Result<std::string> NomadChain::Call(const std::string& command,
                                     const Json& plugin,
                                     const std::string& netns) const {
  Json conf = plugin;
  conf["cniVersion"] = "0.4.0";
  conf["name"] = "nomad";
  if (conf.contains("capabilities")) {
    conf["runtimeConfig"] = {{"portMappings", mappings_}};
  }
  if (!result_.is_null()) {
    conf["prevResult"] = result_;
  }
  std::vector<std::string> environment = environment_;
  for (const std::string& variable :
       {"CNI_COMMAND=" + command,
        std::string("CNI_CONTAINERID=") + kNomadAllocation,
        "CNI_NETNS=" + netns, std::string("CNI_IFNAME=eth0"),
        "CNI_PATH=" + directory_,
        "CNI_ARGS=IgnoreUnknown=true;NOMAD_REGION=global;"
        "NOMAD_NAMESPACE=default;NOMAD_JOB_ID=bench;"
        "NOMAD_GROUP_NAME=group;NOMAD_ALLOC_ID=" +
            std::string(kNomadAllocation)}) {
    environment.push_back(variable);
  }
  return RunProgram({.command = {PathOf(plugin["type"])},
                     .environment = std::move(environment),
                     .input = conf.dump()});
}

}  // namespace mountd::bench
