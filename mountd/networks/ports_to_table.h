// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <vector>

#include "mountd/store/records.h"
#include "netns/address/port_table.h"

// The host's ports that allocations ask for.
namespace mountd {

// Converts the ports to the form of the port table.
std::vector<netns::HostPorts> HostPortsOf(
    const std::vector<PortMapping>& ports);

}  // namespace mountd
