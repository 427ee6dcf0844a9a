// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/context.h"

namespace mountd::propagation {

// Removes everything in the directory (parent, name), which must lie, and all
// of it, in the mount `mount_id`: a mount anywhere in it is Busy, links are
// removed and not followed. Bounded in depth and number; beyond,
// ResourceExhausted.
Result<void> EmptyDirectory(const Context& context, int parent,
                            const std::string& name, std::uint64_t mount_id);

}  // namespace mountd::propagation
