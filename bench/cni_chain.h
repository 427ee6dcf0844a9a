// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>

#include "bench/network_way.h"

namespace mountd::bench {

// Runs Debian's CNI plugins as Nomad does (nomad_chain.h). The plugins have a
// host of their own, so that no other contender's rules disturb them.
//
// NotFound if a program is missing here.
Result<std::unique_ptr<NetworkWay>> ByCniChain();

// Returns the plugins' version.
std::string CniVersion();

}  // namespace mountd::bench
