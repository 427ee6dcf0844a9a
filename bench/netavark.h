// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>

#include "bench/network_way.h"

namespace mountd::bench {

// Runs Podman's netavark as Podman does: one process for each setup and
// teardown, with its options on stdin. Netavark has a host of its own, and its
// bridge there has one container already. NotFound if netavark is missing here.
Result<std::unique_ptr<NetworkWay>> ByNetavark();

// Returns "netavark 1.4.0"; "" if it is missing here.
const std::string& NetavarkVersion();

}  // namespace mountd::bench
