// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <vector>

#include "mountd/base/result.h"
#include "mountd/store/records.h"
#include "netns/port_table.h"

// The host's ports that allocations ask for.
namespace mountd {

// In the table's terms.
std::vector<netns::HostPorts> HostPortsOf(
    const std::vector<PortMapping>& ports);

// AlreadyExists if a socket of the host listens on one of them. The kernel is
// asked for those that do; where it cannot tell, binding does, but for
// privileged ports. SCTP's are not looked at: the port map then wins over the
// socket, as it does for any other DNAT.
Result<void> CheckNotListening(const std::vector<PortMapping>& ports);

}  // namespace mountd
