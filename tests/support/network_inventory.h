// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <set>
#include <string>

namespace mountd::testing {

// Adds a line for each object of this thread's network namespace (rtnetlink(7),
// and ctnetlink for connections): each address, each route of a table that is
// not the kernel's own, each routing rule, each neighbour (proxy entries as
// "proxy"), each tracked connection, and each setting of /proc/sys/net/ipv4 and
// ipv6 for all links, new links or lo. Leaves out times, counters and the
// states that neighbours reach by themselves, because they change without any
// program's action.
void AddNetworkInventory(std::set<std::string>* items);

}  // namespace mountd::testing
