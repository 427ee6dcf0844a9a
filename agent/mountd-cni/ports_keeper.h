// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/unique_fd.h"

namespace mountd::cni_plugin {

// Returns a pidfd of the process that keeps a running container's host ports
// for its runtime. For podman that is conmon, which listens on each port, so
// that nobody else takes the port. The pidfd makes mountd accept these sockets
// (SetupNetwork, "ports_keeper"); mountd checks all that it is given about
// them.
//
// Searches this user's own processes for a conmon with the container's id in
// its arguments. Returns an invalid fd if there is none, as before a container
// has begun.
UniqueFd FindPortsKeeper(const std::string& container_id);

}  // namespace mountd::cni_plugin
