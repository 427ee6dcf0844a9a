// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/plan/network_plans.h"
#include "netns/plans/network.h"

namespace mountd::netns {

// Replaces the port maps of an existing network, in one transaction of
// nf_tables. Afterwards the network has all ports of the plan and none of the
// old ones, or nothing has changed. Ports that stay keep their connections. The
// kernel forgets the connections of ports that were removed.
//
// FailedPrecondition if the namespace or the link is not the allocation's, or
// if the link's own elements are missing. Those elements show that the plan's
// addresses belong to this link, so no port leads to another allocation.
// AlreadyExists if a port is mapped already, or if a socket of the host listens
// on a port that is new.
Result<void> UpdatePorts(const Context& context, const exec::PortsPlan& plan,
                         const exec::Tell<exec::NetworkState>& tell);

}  // namespace mountd::netns
