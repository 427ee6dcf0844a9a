// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/mountctl/doctor/check.h"
#include "agent/types.h"
#include "mountd/base/result.h"

// Checks of mountd's own answers about a node.
namespace mountd::agent {

Check CheckKernel(const Capabilities& offers);
// Returns one check for each feature that the node does not offer.
std::vector<Check> CheckFeatures(const Capabilities& offers);

// Checks whether a rule names the caller, and what that rule grants.
struct CallerFacts {
  std::string user;
  bool root = false;
};
Check CheckPolicy(const CallerFacts& caller, const Capabilities& offers);

// Returns one check for each network. CheckHostPorts returns one for the host
// ports that the caller may map.
std::vector<Check> CheckAddresses(const Capabilities& offers);
std::optional<Check> CheckHostPorts(const Capabilities& offers);

// Returns one check for each plugin, or one that says there is none.
std::vector<Check> CheckPlugins(const std::vector<PluginStatus>& plugins);

// The number of all users' pending tear-downs, and those that the caller may
// see.
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
