// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/environment.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "netns/cni/documents/limits.h"
#include "netns/cni/documents/names.h"

namespace mountd::cni_plugin {
namespace {

constexpr std::array<std::string_view, 6> kCommands = {
    "ADD", "CHECK", "DEL", "GC", "STATUS", "VERSION"};
constexpr std::size_t kMaxNetnsBytes = 4096;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Failure BadVariable(const char* name, const char* why) {
  return {cni::kInvalidEnvironment, std::string(name) + " " + why};
}

bool NeedsNetns(const std::string& command) {
  return command == "ADD" || command == "CHECK";
}

// Accepts "lo" for loopback alone, because some runtimes start that plugin for
// this interface.
bool IsInterface(const Environment& environment) {
  return cni::IsInterfaceName(environment.ifname) &&
         (environment.ifname != "lo" || environment.program == "loopback");
}

}  // namespace

Environment ProcessEnvironment(std::string_view program) {
  const std::size_t slash = program.rfind('/');
  return {
      Variable("CNI_COMMAND"),
      Variable("CNI_CONTAINERID"),
      Variable("CNI_NETNS"),
      Variable("CNI_IFNAME"),
      Variable("CNI_ARGS"),
      std::string(slash == std::string_view::npos ? program
                                                  : program.substr(slash + 1)),
      Variable("MOUNTD_CNI_NETWORK"),
      Variable("MOUNTD_CNI_ADDRESS")};
}

Outcome<void> CheckEnvironment(const Environment& environment) {
  const std::string& command = environment.command;
  if (std::find(kCommands.begin(), kCommands.end(), command) ==
      kCommands.end()) {
    return BadVariable(
        "CNI_COMMAND",
        "must be a command of the CNI specification, such as ADD");
  }
  if (command != "DEL" && !NeedsNetns(command)) {
    return {};
  }
  if (!cni::IsContainerId(environment.container_id)) {
    return BadVariable("CNI_CONTAINERID",
                       "must be 1 to 128 bytes of [A-Za-z0-9_.-]");
  }
  if (!IsInterface(environment)) {
    return BadVariable(
        "CNI_IFNAME",
        "must be 1 to 15 bytes of [A-Za-z0-9_.-], but not \"lo\"");
  }
  if (NeedsNetns(command) && (!environment.netns.starts_with('/') ||
                              environment.netns.size() > kMaxNetnsBytes)) {
    return BadVariable("CNI_NETNS", "must be an absolute path");
  }
  return {};
}

Outcome<std::vector<std::string>> ValuesInArgs(const std::string& args,
                                               std::string_view key) {
  std::vector<std::string> values;
  if (args.size() > cni::kMaxArgsBytes) {
    return BadVariable("CNI_ARGS", "is too long");
  }
  std::string_view rest = args;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(';'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return BadVariable("CNI_ARGS", "must have the form KEY=VALUE;KEY=VALUE");
    }
    if (pair.substr(0, equals) == key) {
      values.emplace_back(pair.substr(equals + 1));
    }
  }
  return values;
}

}  // namespace mountd::cni_plugin
