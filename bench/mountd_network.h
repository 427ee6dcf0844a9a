// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/client.h"
#include "bench/network_way.h"
#include "bench/raw_netlink.h"

namespace mountd::bench {

// Maps each port for TCP and UDP.
agent::NetworkSpec SpecWith(const std::vector<std::uint16_t>& ports);

// Calls SetupNetwork and TeardownNetwork for a prepared allocation, by an
// unprivileged client over the socket.
std::unique_ptr<NetworkWay> NetworkThroughMountd(agent::Client& client,
                                                 const std::string& allocation,
                                                 LinkWatch& links);

}  // namespace mountd::bench
