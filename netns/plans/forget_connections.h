// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <vector>

#include "mountd/plan/network_plans.h"
#include "netns/plans/access.h"
#include "netns/plans/elements.h"
#include "netns/plans/network.h"

namespace mountd::netns {

// Lets the kernel forget the connections that the port maps `gone` led to the
// plan's network. Without this, packets of a UDP client would reach the
// allocation for as long as the client sends. Best effort: a connection that
// stays ends by its own timeout.
//
// Reads the kernel's list once, while the kernel writes the list, and keeps a
// fixed number of connections at a time, because any client of the allocation
// decides how many there are.
void ForgetConnections(const Context& context, Access* access,
                       const std::vector<Element>& gone,
                       const exec::NetworkPlan& plan);

// Lets the kernel forget all connections of the plan's addresses, which are
// about to be free, so that a flow through a port map ends with the map. Linux
// before 6.8 cannot select connections by address, so there the executor lists
// them and names each. Best effort, as above.
void ForgetConnectionsOf(const Context& context, Access* access,
                         const exec::NetworkPlan& plan);

}  // namespace mountd::netns
