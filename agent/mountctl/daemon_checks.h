// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/mountctl/check.h"
#include "agent/types.h"
#include "mountd/base/result.h"

// What mountd's own answers say of a node.
namespace mountd::agent {

Check CheckKernel(const Capabilities& offers);
// One for each thing that is not offered.
std::vector<Check> CheckFeatures(const Capabilities& offers);

// Whether a rule names the caller, and what it may.
struct CallerFacts {
  std::string user;
  bool root = false;
};
Check CheckPolicy(const CallerFacts& caller, const Capabilities& offers);

// One for each network; and one for the host ports that the caller may map.
std::vector<Check> CheckAddresses(const Capabilities& offers);
std::optional<Check> CheckHostPorts(const Capabilities& offers);

// One for each plugin, or one that there is none.
std::vector<Check> CheckPlugins(const std::vector<PluginStatus>& plugins);

// What all users are owed; and of those the caller may see, which.
struct OwedFacts {
  std::uint32_t count = 0;
  std::chrono::seconds oldest{0};
  std::vector<OwedTeardown> seen;
  std::chrono::milliseconds warning{300'000};  // timeouts.owed_warning_ms
};
Check CheckOwed(const OwedFacts& facts);

Check CheckStuck(const Capabilities& offers);
Check CheckStores(const Capabilities& offers);

}  // namespace mountd::agent
