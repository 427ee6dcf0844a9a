// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <set>

#include "propagation/context.h"

namespace mountd::propagation {

// The inodes in sockfs of all sockets that the process of `pidfd` has open.
// PermissionDenied unless all of its user ids are `uid`: a setuid program that
// a user has started is not the user's own. InvalidArgument and
// FailedPrecondition as OpenProcess; ResourceExhausted if it has more than
// 65,536 files open.
Result<std::set<std::uint64_t>> SocketsOf(const Context& context, int pidfd,
                                          std::uint32_t uid);

}  // namespace mountd::propagation
