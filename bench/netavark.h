// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>

#include "bench/network_way.h"

namespace mountd::bench {

// Podman's netavark, as Podman runs it: one process per setup and teardown, its
// options on stdin. On a host of its own, where its bridge has one container
// already. NotFound if it is not here.
Result<std::unique_ptr<NetworkWay>> ByNetavark();

// "netavark 1.4.0"; "" if it is not here.
const std::string& NetavarkVersion();

}  // namespace mountd::bench
