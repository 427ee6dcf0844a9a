// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/cni_chain.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/namespaces.h"
#include "bench/programs.h"

namespace mountd::bench {
namespace {

using Json = nlohmann::json;

constexpr char kPlugins[] = "/usr/lib/cni";
constexpr char kIptables[] = "/usr/sbin/iptables";
constexpr char kSubnet[] = "172.26.64.0/20";
constexpr char kAllocation[] = "5d4b3c2a-1f0e-4d9c-8b7a-69584736f5e4";

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

std::string PathOf(const std::string& plugin) {
  return std::string(kPlugins) + "/" + plugin;
}

class CniChain final : public NetworkWay {
 public:
  explicit CniChain(Namespace host) : host_(std::move(host)) {}
  std::string name() const override { return "CNI chain"; }

  // Makes the chain that Nomad makes with its first allocation.
  Result<void> MakeAdminChain() {
    MOUNTD_ASSIGN(const Inside inside, Inside::Enter(host_));
    MOUNTD_TRY(RunProgram({{kIptables, "-w", "-N", "NOMAD-ADMIN"}}));
    MOUNTD_TRY(RunProgram({{kIptables, "-w", "-A", "NOMAD-ADMIN", "-o", "nomad",
                            "-d", kSubnet, "-j", "ACCEPT"}}));
    return Ok();
  }

  Result<void> Prepare(const std::vector<std::uint16_t>& ports) override {
    mappings_ = Json::array();
    for (const std::uint16_t port : ports) {
      for (const char* protocol : {"tcp", "udp"}) {
        mappings_.push_back({{"hostPort", port},
                             {"containerPort", ContainerPort(port)},
                             {"protocol", protocol},
                             {"hostIP", ""}});
      }
    }
    return namespace_.Make();
  }
  Result<void> CleanUp() override { return namespace_.Remove(); }

  Result<void> SetUp() override {
    MOUNTD_ASSIGN(const Inside inside, Inside::Enter(host_));
    result_ = nullptr;
    for (const Json& plugin : plugins_) {
      MOUNTD_ASSIGN(const std::string answer, Call("ADD", plugin));
      result_ = Json::parse(answer, nullptr, false);
    }
    return Ok();
  }

  Result<void> TearDown() override {
    MOUNTD_ASSIGN(const Inside inside, Inside::Enter(host_));
    for (auto plugin = plugins_.rbegin(); plugin != plugins_.rend(); ++plugin) {
      MOUNTD_TRY(Call("DEL", *plugin));
    }
    return Ok();
  }

 private:
  // Passes what libcni passes: the plugin's own part of the list, the list's
  // name and version, the capabilities that the plugin declares, and the result
  // so far.
  Result<std::string> Call(const std::string& command, const Json& plugin) {
    Json conf = plugin;
    conf["cniVersion"] = "0.4.0";
    conf["name"] = "nomad";
    if (conf.contains("capabilities")) {
      conf["runtimeConfig"] = {{"portMappings", mappings_}};
    }
    if (!result_.is_null()) {
      conf["prevResult"] = result_;
    }
    return RunProgram(
        {.command = {PathOf(plugin["type"])},
         .environment = {"CNI_COMMAND=" + command,
                         std::string("CNI_CONTAINERID=") + kAllocation,
                         "CNI_NETNS=" + namespace_.path(), "CNI_IFNAME=eth0",
                         std::string("CNI_PATH=") + kPlugins,
                         "CNI_ARGS=IgnoreUnknown=true;NOMAD_REGION=global;"
                         "NOMAD_NAMESPACE=default;NOMAD_JOB_ID=bench;"
                         "NOMAD_GROUP_NAME=group;NOMAD_ALLOC_ID=" +
                             std::string(kAllocation)},
         .input = conf.dump()});
  }

  const Namespace host_;
  const Json plugins_ = Json::parse(kConflist);
  NomadNamespace namespace_{kAllocation};
  Json mappings_;
  Json result_;
};

}  // namespace

Result<std::unique_ptr<NetworkWay>> ByCniChain() {
  std::vector<std::string> programs = {kIptables, PathOf("host-local")};
  for (const Json& plugin : Json::parse(kConflist)) {
    programs.push_back(PathOf(plugin["type"]));
  }
  const auto missing =
      std::find_if_not(programs.begin(), programs.end(), IsProgram);
  if (missing != programs.end()) {
    return MakeError(Code::kNotFound, "find", *missing, "not installed");
  }
  MOUNTD_ASSIGN(Namespace host, MakeNamespace());
  auto chain = std::make_unique<CniChain>(std::move(host));
  MOUNTD_TRY(chain->MakeAdminChain());
  return std::unique_ptr<NetworkWay>(std::move(chain));
}

std::string CniVersion() {
  const Result<std::string> version =
      RunProgram({.command = {"/usr/bin/dpkg-query", "-W", "-f",
                              "${Package} ${Version}, with iptables ",
                              "containernetworking-plugins"}});
  const Result<std::string> iptables =
      RunProgram({.command = {kIptables, "--version"}});
  std::string text = version ? *version : "unknown, with iptables ";
  if (iptables) {
    text += iptables->substr(iptables->find(' ') + 1);
  }
  return text.substr(0, text.find('\n'));
}

}  // namespace mountd::bench
