// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>

#include "bench/network_way.h"

namespace mountd::bench {

// Runs the CNI plugins that Nomad runs for an allocation in bridge mode, in the
// same way: loopback, bridge with host-local, firewall, portmap. Each is a
// process whose stdin has its configuration with the previous plugin's result;
// DEL runs them in reverse order. The plugins have a host of their own, so that
// no other contender's rules disturb them. Leaves out the calls of iptables
// that Nomad makes before each.
//
// NotFound if a program is missing here.
Result<std::unique_ptr<NetworkWay>> ByCniChain();

// Returns the plugins' version.
std::string CniVersion();

}  // namespace mountd::bench
