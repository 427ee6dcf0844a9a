// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "csi-node/node/plugins.h"
#include "tests/support/fakes/call_script.h"

namespace mountd::csi {

// Waits for changes of a plugin's status that are no edge, because no event
// reports these.
template <typename F>
bool AwaitStatus(Plugins& plugins, const std::string& plugin,
                 const F& condition) {
  const auto deadline = Clock::now() + kTestPatience;
  while (!condition(plugins.Get(plugin).value())) {
    if (Clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

inline bool AwaitReason(Plugins& plugins, const std::string& plugin,
                        const std::string& text) {
  return AwaitStatus(plugins, plugin, [&](const PluginStatus& status) {
    return status.reason.find(text) != std::string::npos;
  });
}

}  // namespace mountd::csi
