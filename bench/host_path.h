// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "tests/csi/process.h"

namespace mountd::bench {

// Kubernetes' csi-driver-host-path: HOSTPATHPLUGIN, or hostpathplugin in PATH.
// "" if there is none.
std::string HostPathProgram();

testing::Process StartHostPath(const std::string& program,
                               const std::string& socket,
                               const std::string& data);

}  // namespace mountd::bench
