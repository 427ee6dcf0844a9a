// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/real/cni/debian_plugins.h"

#include <filesystem>
#include <sstream>

#include "tests/support/program.h"

namespace mountd::cni {

Shell Sh(const std::string& script) {
  const auto outcome = test::RunProgram({"/bin/sh", "-c", script});
  return {outcome.status == 0, outcome.out + outcome.err};
}

std::string WhyNoPlugins() {
  if (!std::filesystem::exists(std::string(kPlugins) + "/bridge")) {
    return std::string("without containernetworking-plugins in ") + kPlugins;
  }
  return Sh("iptables -t nat -S").good
             ? ""
             : "iptables does not work with this kernel";
}

std::string WhyNoLink(const std::string& how) {
  const Shell made = Sh("ip link add test0 type " + how);
  Sh("ip link del test0");
  return made.good ? "" : "the kernel makes no " + how + ": " + made.out;
}

Json HostLocal(const std::string& subnet, const std::string& subnet6) {
  Json ranges = Json::array({Json::array({{{"subnet", subnet}}})});
  if (!subnet6.empty()) {
    ranges.push_back(Json::array({{{"subnet", subnet6}}}));
  }
  return {{"type", "host-local"},
          {"ranges", ranges},
          {"routes", Json::array({{{"dst", "0.0.0.0/0"}}})},
          {"dataDir", "/run/cni"}};
}

std::vector<Json> NomadsPlugins(const Json& ipam) {
  return {{{"type", "loopback"}},
          {{"type", "bridge"},
           {"bridge", "nomad"},
           {"ipMasq", true},
           {"isGateway", true},
           {"forceAddress", true},
           {"hairpinMode", false},
           {"ipam", ipam}},
          {{"type", "firewall"},
           {"backend", "iptables"},
           {"iptablesAdminChainName", "NOMAD-ADMIN"}},
          {{"type", "portmap"},
           {"capabilities", {{"portMappings", true}}},
           {"snat", true}}};
}

namespace {

Lines LinesOf(const std::string& script) {
  std::istringstream text(Sh(script).out);
  Lines lines;
  for (std::string line; std::getline(text, line);) {
    lines.insert(line);
  }
  return lines;
}

}  // namespace

Lines Leases() {
  return LinesOf("find /run/cni -type f -name '*[.:]*' ! -name 'last_*'");
}

Lines WhatPluginsLeft() {
  Lines left = LinesOf(
      "ip -o link | cut -d: -f2 | cut -d@ -f1;"
      "for ns in /run/netns/*; do"
      "  nsenter --net=$ns ip -o link | cut -d: -f2 | cut -d@ -f1 |"
      "  sed s,^,$ns,; done;"
      "{ iptables-save; ip6tables-save; } | grep -v '^[#:]'");
  left.merge(Leases());
  return left;
}

}  // namespace mountd::cni
