// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/plan/tree_plans.h"
#include "propagation/files/tree_walk.h"

namespace mountd::propagation {

// Removes everything in the directory (parent, name). The directory and all
// files in it must lie in the mount `mount_id`; Busy if a mount lies anywhere
// in it. Removes links and does not follow them. Owners and depth of the
// directories do not matter. The number of entries is bounded:
// ResourceExhausted beyond, and the next call continues. Afterwards the
// directory is root's alone.
Result<void> EmptyDirectory(const Context& context, int parent,
                            const std::string& name, std::uint64_t mount_id);

// Does a part of this for a directory that a caller passed: as much as `bound`
// allows. Each call starts again with what is left. Between two calls and at
// the end the directory has its owner and mode back. If an executor was killed
// meanwhile, the directory is still root's, in a directory of the caller's; the
// next call accepts such a directory and gives it to the caller.
Result<exec::TreeReply> RemoveSome(const Context& context, int fd,
                                   const exec::TreePlan& plan,
                                   const TreeBound& bound);

}  // namespace mountd::propagation
