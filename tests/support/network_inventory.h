// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <set>
#include <string>

namespace mountd::testing {

// Adds a line for each address, each route of a table that is not the kernel's
// own, each rule of routing, each neighbour (also those that are answered for,
// "proxy"), each connection that is tracked, and each setting of
// /proc/sys/net/ipv4 and ipv6 that is of all links, of new ones or of lo, in
// this thread's network namespace (rtnetlink(7), and ctnetlink for
// connections). Times, counters and the states that neighbours come to by
// themselves are left out, because they change without anybody's doing.
void AddNetworkInventory(std::set<std::string>* items);

}  // namespace mountd::testing
