// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

namespace mountd::testing {

// Returns the network configuration of agent/mountd-cni/README.md,
// unchanged; "" if there is none.
std::string ReadmeNetworkConfig();

}  // namespace mountd::testing
