// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/mountd-cni/failure.h"

namespace mountd::cni_plugin {

// The values that a runtime passes in CNI_* (CNI 1.1, section 2, "Parameters");
// "" for a variable that is not set. CNI_PATH is absent, because this plugin
// starts no other plugin.
struct Environment {
  std::string command;
  std::string container_id;
  std::string netns;
  std::string ifname;
  std::string args;
  // The last part of the program's own path (argv[0]).
  std::string program{};
  // MOUNTD_CNI_NETWORK and MOUNTD_CNI_ADDRESS: defaults of the configuration's
  // keys "network" and "address". They serve a configuration that the runtime
  // itself writes. A runtime passes its own environment on, so the runtime's
  // unit file can set them.
  std::string network{};
  std::string address{};
};

// `program` is argv[0].
Environment ProcessEnvironment(std::string_view program);

// kInvalidEnvironment if the command is unknown, or a value that the command
// needs is missing or invalid.
Outcome<void> CheckEnvironment(const Environment& environment);

// Returns the values of a key in CNI_ARGS ("IP=10.88.0.9", as host-local
// accepts it). Ignores all other keys, with IgnoreUnknown or without, because
// they are for other plugins. kInvalidEnvironment if the text is not "K=V;K=V".
Outcome<std::vector<std::string>> ValuesInArgs(const std::string& args,
                                               std::string_view key);

}  // namespace mountd::cni_plugin
