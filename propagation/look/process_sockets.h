// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <set>

#include "propagation/ground/context.h"

namespace mountd::propagation {

// Returns the inodes in sockfs of all sockets that the process of `pidfd` has
// open. PermissionDenied unless all of its user ids are `uid`, because a setuid
// program that a user started is not the user's own. ResourceExhausted if the
// process has 65,536 or more files open. InvalidArgument and FailedPrecondition
// as for OpenProcess.
Result<std::set<std::uint64_t>> SocketsOf(const Context& context, int pidfd,
                                          std::uint32_t uid);

}  // namespace mountd::propagation
