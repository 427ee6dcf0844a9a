// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>

#include "bench/network_way.h"

namespace mountd::bench {

// The CNI plugins that Nomad runs for an allocation in bridge mode, as it runs
// them: loopback, bridge with host-local, firewall, portmap, each a process
// with its configuration on stdin and the result of the one before in it; DEL
// the other way round. On a host of its own, so that nobody's rules are in
// anybody's way. Nomad's own calls of iptables before each are left out.
//
// NotFound if there is no such program here.
Result<std::unique_ptr<NetworkWay>> ByCniChain();

// Which ones these are.
std::string CniVersion();

}  // namespace mountd::bench
