// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <vector>

#include "netns/network.h"

namespace mountd::netns {

// What executors have made and is there, by the kernel's word alone: each link
// with its addresses and port maps, and each pinned namespace without one. For
// a start, as it lists all links and elements of the table.
Result<std::vector<exec::FoundNetwork>> ListNetworks(const Context& context);

}  // namespace mountd::netns
