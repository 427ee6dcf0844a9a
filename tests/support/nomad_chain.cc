// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/nomad_chain.h"

#include <filesystem>
#include <fstream>

#include "tests/support/program.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Json PortMappings() {
  // Nomad's struct has no JSON names.
  const Json tcp = {{"HostPort", 8080},
                    {"ContainerPort", 80},
                    {"Protocol", "tcp"},
                    {"HostIP", ""}};
  Json udp = tcp;
  udp["Protocol"] = "udp";
  return Json::array({tcp, udp});
}

Json ConfigOf(const std::string& plugin) {
  Json conf = {{"cniVersion", "0.4.0"}, {"name", "nomad"}, {"type", plugin}};
  if (plugin == "bridge") {
    conf.update({{"bridge", "nomad"},
                 {"ipMasq", true},
                 {"isGateway", true},
                 {"forceAddress", true},
                 {"hairpinMode", false}});
    const Json range = {{"subnet", "172.26.64.0/20"}};
    const Json route = {{"dst", "0.0.0.0/0"}};
    conf["ipam"] = {{"type", "host-local"},
                    {"ranges", Json::array({Json::array({range})})},
                    {"routes", Json::array({route})}};
  }
  if (plugin == "firewall") {
    conf.update(
        {{"backend", "iptables"}, {"iptablesAdminChainName", "NOMAD-ADMIN"}});
  }
  if (plugin == "portmap") {
    conf.update({{"snat", true}, {"capabilities", {{"portMappings", true}}}});
    conf["runtimeConfig"]["portMappings"] = PortMappings();
  }
  return conf;
}

std::string Complaint(const std::string& plugin, const PluginAnswer& answer) {
  return answer.status == 0 && answer.json.is_null()
             ? ""
             : plugin + ": " + answer.json.dump() + answer.err + "\n";
}

}  // namespace

const std::vector<std::string>& NomadChain::Plugins() {
  static const std::vector<std::string> kPlugins = {"loopback", "bridge",
                                                    "firewall", "portmap"};
  return kPlugins;
}

void NomadChain::Install(const std::string& program,
                         const std::string& directory) {
  fs::create_directories(directory);
  fs::copy_file(program, directory + "/mountd-cni");
  for (const std::string& plugin : Plugins()) {
    fs::create_symlink("mountd-cni", directory + "/" + plugin);
  }
}

PluginAnswer NomadChain::Call(const std::string& plugin,
                              const std::string& verb, const Json& prev,
                              const Json& more) const {
  Json conf = ConfigOf(plugin);
  conf.update(more);
  if (!prev.is_null()) {
    conf["prevResult"] = prev;
  }
  const std::string input = inputs_ + "/" + plugin + "-" + verb;
  std::ofstream(input) << conf.dump();
  std::vector<std::string> command = as_;
  for (const std::string& word :
       {std::string("/usr/bin/env"), std::string("-i"), "CNI_COMMAND=" + verb,
        "CNI_CONTAINERID=" + container_, std::string("CNI_IFNAME=eth0"),
        "CNI_NETNS=" + (verb == "DEL" ? "" : netns_), "CNI_PATH=" + directory_,
        std::string("/bin/sh"), std::string("-c"),
        "exec " + directory_ + "/" + plugin + " <" + input}) {
    command.push_back(word);
  }
  const auto outcome = test::RunProgram(command);
  PluginAnswer answer{outcome.status, nullptr, outcome.err};
  if (!outcome.out.empty()) {
    answer.json = Json::parse(outcome.out, nullptr, false);
  }
  return answer;
}

PluginAnswer NomadChain::AddAll() {
  PluginAnswer answer;
  std::string lines;
  result_ = nullptr;
  for (const std::string& plugin : Plugins()) {
    answer = Call(plugin, "ADD", result_);
    lines += answer.err;
    if (answer.status != 0) {
      break;
    }
    result_ = answer.json;
  }
  answer.err = lines;
  return answer;
}

std::string NomadChain::CheckAll() const {
  std::string complaints;
  for (const std::string& plugin : Plugins()) {
    complaints += Complaint(plugin, Call(plugin, "CHECK", result_));
  }
  return complaints;
}

std::string NomadChain::DelAll() const {
  std::string complaints;
  for (auto plugin = Plugins().rbegin(); plugin != Plugins().rend(); ++plugin) {
    complaints += Complaint(*plugin, Call(*plugin, "DEL", result_));
  }
  return complaints;
}

}  // namespace mountd::testing
