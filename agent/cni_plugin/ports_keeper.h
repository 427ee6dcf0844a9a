// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/unique_fd.h"

namespace mountd::cni_plugin {

// A pidfd of the process with which the runtime itself keeps a running
// container's host ports: of podman its conmon, which has a listening socket on
// each, so that nobody else takes them. mountd then does not take these sockets
// for another service's (SetupNetwork, "ports_keeper"), and checks all it is
// told of them.
//
// Found by the container's id in conmon's arguments, among this user's own
// processes. Not valid where there is none, as before a container has begun.
UniqueFd FindPortsKeeper(const std::string& container_id);

}  // namespace mountd::cni_plugin
