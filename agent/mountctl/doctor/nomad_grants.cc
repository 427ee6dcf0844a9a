// SPDX-License-Identifier: LGPL-2.1-or-later
#include <toml++/toml.h>

#include <algorithm>

#include "agent/mountctl/doctor/nomad_checks.h"
#include "agent/mountctl/output/output.h"
#include "mountd/base/paths.h"

namespace mountd::agent {
namespace {

constexpr char kReload[] =
    " to the rule in /etc/mountd/mountd.toml, then systemctl "
    "reload-or-restart mountd.service";

Check Missing(std::string what, std::string why, const std::string& key) {
  return {Verdict::kFailed, std::move(what), std::move(why),
          "add " + key + kReload};
}

std::vector<std::string> WordsOf(const toml::table& rule, const char* key) {
  std::vector<std::string> words;
  if (const toml::array* values = rule[key].as_array()) {
    for (const toml::node& value : *values) {
      if (const auto text = value.value<std::string>()) {
        words.push_back(*text);
      } else if (const auto number = value.value<std::int64_t>()) {
        words.push_back(std::to_string(*number));
      }
    }
  }
  return words;
}

bool AnyIn(const std::vector<std::string>& some,
           const std::vector<std::string>& others) {
  return std::any_of(some.begin(), some.end(), [&](const std::string& one) {
    return std::find(others.begin(), others.end(), one) != others.end();
  });
}

}  // namespace

std::vector<Check> CheckNomadGrants(const std::vector<NetworkGrant>& networks,
                                    const std::string& cni_network) {
  std::vector<std::string> names;
  bool ports = false;
  for (const NetworkGrant& one : networks) {
    if (one.mode == "bridge") {
      names.push_back(one.network);
      ports = ports || !one.host_ports.empty();
    }
  }
  if (names.empty()) {
    return {Missing("networks", "no rule grants one of [network.NAME]",
                    "networks = [\"default\"]")};
  }
  const std::string wanted = cni_network.empty() ? "default" : cni_network;
  std::vector<Check> checks;
  if (std::find(names.begin(), names.end(), wanted) == names.end()) {
    checks.push_back(Missing("networks",
                             "mode \"bridge\" is " + wanted +
                                 " (MOUNTD_CNI_NETWORK), and rules grant " +
                                 Join(names),
                             "networks = [\"" + wanted + "\"]"));
  } else {
    checks.push_back(Fine("networks", "mode \"bridge\" is " + wanted));
  }
  checks.push_back(ports
                       ? Fine("host ports of networks", "rules grant some")
                       : Missing("host ports of networks", "no rule grants one",
                                 "host_ports = [\"20000-32000\"]"));
  return checks;
}

Check CheckGrantedCgroup(const std::string& toml, const RuleOwner& owner,
                         const std::string& cgroup) {
  const std::string what = "cgroups of rules";
  toml::table config;
  try {
    config = toml::parse(toml);
  } catch (const toml::parse_error& error) {
    return {Verdict::kUnknown, what,
            "mountd.toml has an error: " + std::string(error.description()),
            ""};
  }
  const toml::array* rules = config["rule"].as_array();
  for (std::size_t i = 0; rules != nullptr && i < rules->size(); ++i) {
    const toml::table* rule = rules->get(i)->as_table();
    if (rule == nullptr || (!AnyIn(WordsOf(*rule, "users"), owner.users) &&
                            !AnyIn(WordsOf(*rule, "groups"), owner.groups))) {
      continue;
    }
    for (const std::string& granted : WordsOf(*rule, "cgroups")) {
      if (paths::IsAtOrBelow(cgroup, granted)) {
        return Fine(what, granted);
      }
    }
  }
  return Missing(
      what,
      "no rule grants " + cgroup + ", so a task with mounts does not start",
      "cgroups = [\"" + cgroup + "\"]");
}

}  // namespace mountd::agent
