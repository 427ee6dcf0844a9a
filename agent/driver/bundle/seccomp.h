// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

namespace mountd::driver {

// Returns `linux.seccomp` of the OCI configuration for a container with these
// capabilities: a list of the system calls that it may make. The filter holds
// for each process of the container, and a process cannot take it off.
//
// A call that no list names answers ENOSYS, as on an older kernel, so that a
// program can use an older call instead. A call that the filter refuses on
// purpose answers EPERM. The filter allows a call that needs a capability only
// with that capability, in addition to the kernel's own check. No default is
// weaker than that of containers-common, which podman has; a test compares
// both.
//
// The filter treats calls of 32-bit programs alike, except socketcall(2),
// because a filter cannot see that call's arguments. x32 programs end by
// SIGSYS.
nlohmann::json SeccompFor(const std::set<std::string>& capabilities);

}  // namespace mountd::driver
