// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "tests/csi/process.h"

namespace mountd::testing {

// Returns Kubernetes' csi-driver-host-path: HOSTPATHPLUGIN, or hostpathplugin
// in PATH; "" if there is none.
std::string HostPathProgram();

// Starts it as the only node, node-1. Makes `data`.
Process StartHostPath(const std::string& program, const std::string& socket,
                      const std::string& data,
                      const std::vector<std::string>& options = {});

}  // namespace mountd::testing
