// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <vector>

#include "mountd/store/records.h"
#include "netns/port_table.h"

// The host's ports that allocations ask for.
namespace mountd {

// In the table's terms.
std::vector<netns::HostPorts> HostPortsOf(
    const std::vector<PortMapping>& ports);

}  // namespace mountd
