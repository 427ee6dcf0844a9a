// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/context.h"

namespace mountd::propagation {

// Removes everything in the directory (parent, name), which must lie, and all
// of it, in the mount `mount_id`: a mount anywhere in it is Busy, links are
// removed and not followed. Whose the directories in it are and how deep they
// lie does not matter. Bounded in number; beyond, ResourceExhausted, and the
// next call goes on.
Result<void> EmptyDirectory(const Context& context, int parent,
                            const std::string& name, std::uint64_t mount_id);

}  // namespace mountd::propagation
