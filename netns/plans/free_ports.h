// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstdint>

#include "mountd/plan/network_plans.h"
#include "netns/plans/elements.h"
#include "netns/plans/network.h"

// Ports that a plan maps only if they are free (PortMap::if_free). All
// functions run with the lock of the markers, so that no other plan takes a
// port between the look and the map.
namespace mountd::netns {

// For each port of a plan the protocols that are not mapped.
using Unmapped = std::array<std::uint8_t, exec::kMaxPorts>;

// For the plan of a network that may exist already. Removes from the plan the
// protocols for which the network has no element.
Result<void> KeepMappedPorts(Channel* nft, exec::NetworkPlan* plan,
                             Unmapped* unmapped);

// Removes from the plan the protocols of which a port is taken, by a map or by
// a socket of the host. Each PortMap keeps or loses the protocol for all of its
// ports. Maps with a key of `own` do not count. Fails as
// CheckHostPorts for any other port.
Result<void> KeepFreePorts(const Context& context, Channel* nft,
                           const KeptSockets& kept, const ElementKeys& own,
                           exec::NetworkPlan* plan, Unmapped* unmapped);

}  // namespace mountd::netns
