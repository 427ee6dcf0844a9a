// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/client.h"
#include "agent/mountctl/host_checks.h"
#include "mountd/base/result.h"

// What `mountctl doctor` looks at besides mountd's answers. No verdicts here.
namespace mountd::agent {

// The caller's name, or number.
std::string CallerName();

// All but the error and the version: who may connect to where the options
// lead, and who the caller is.
SocketFacts LookAtSocket(const ClientOptions& options);

// The whole of a file of /proc.
Result<std::string> ReadWhole(const std::string& path);

// The mounts of the host: those of the first process, where executors make
// theirs; or the caller's own where that one's may not be read.
Result<std::string> ReadHostMountinfo();

// mountd's units; none where no systemd runs.
Result<std::vector<UnitState>> ReadUnits();

}  // namespace mountd::agent
