// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

namespace mountd::testing {

// Returns the network configuration of README.md's section "As a CNI plugin",
// unchanged; "" if there is none.
std::string ReadmeNetworkConfig();

}  // namespace mountd::testing
