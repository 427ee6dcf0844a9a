// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/cni_plugin/failure.h"

namespace mountd::cni_plugin {

// What a runtime says in CNI_* (CNI 1.1, section 2, "Parameters"); "" for what
// is not set. CNI_PATH is not ours to use: no plugin is started.
struct Environment {
  std::string command;
  std::string container_id;
  std::string netns;
  std::string ifname;
  std::string args;
};

Environment ProcessEnvironment();

// kInvalidEnvironment if the command is unknown, or what it needs is missing or
// no valid word.
Outcome<void> CheckEnvironment(const Environment& environment);

// The values that CNI_ARGS has for a key ("IP=10.88.0.9", as host-local takes
// it). All other keys are others' business, with IgnoreUnknown or without.
// kInvalidEnvironment if it is not "K=V;K=V".
Outcome<std::vector<std::string>> ValuesInArgs(const std::string& args,
                                               std::string_view key);

}  // namespace mountd::cni_plugin
