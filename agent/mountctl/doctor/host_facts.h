// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "agent/client.h"
#include "agent/mountctl/doctor/host_checks.h"
#include "mountd/base/result.h"

// Collects the facts that `mountctl doctor` takes from the host and not from
// mountd. Makes no verdicts.
namespace mountd::agent {

// Returns the caller's user name, or the number if it has none.
std::string CallerName();

// Returns the caller's groups, the effective one too.
std::vector<gid_t> CallerGroups();

// Collects everything but the error and the version: who may connect to the
// socket that the options lead to, and who the caller is.
SocketFacts LookAtSocket(const ClientOptions& options);

// Reads the whole of a plain file, also of /proc or /sys. InvalidArgument for a
// FIFO or a device, and for a file of more than 16 MiB.
Result<std::string> ReadWhole(const std::string& path);

// Reads the host's mounts: those of the first process, where executors make
// their mounts, or the caller's own if that file may not be read.
Result<std::string> ReadHostMountinfo();

// Returns mountd's units; none if no systemd runs.
Result<std::vector<UnitState>> ReadUnits();

}  // namespace mountd::agent
