// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <vector>

#include "netns/plans/network.h"

namespace mountd::netns {

// Lists what executors have made, as the kernel reports it: each link with its
// addresses and port maps, and each pinned namespace without a link. Only a
// start of mountd uses this, because it lists all links and all elements of the
// table.
Result<std::vector<exec::FoundNetwork>> ListNetworks(const Context& context);

}  // namespace mountd::netns
