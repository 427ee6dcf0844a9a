// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

namespace mountd::testing {

// The network configuration that README.md has in its section "As a CNI
// plugin", as it stands there; "" if there is none.
std::string ReadmeNetworkConfig();

}  // namespace mountd::testing
