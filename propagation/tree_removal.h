// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/tree_walk.h"

namespace mountd::propagation {

// Removes everything in the directory (parent, name), which must lie, and all
// of it, in the mount `mount_id`: a mount anywhere in it is Busy, links are
// removed and not followed. Whose the directories in it are and how deep they
// lie does not matter. Bounded in number; beyond, ResourceExhausted, and the
// next call goes on. The directory is root's alone afterwards.
Result<void> EmptyDirectory(const Context& context, int parent,
                            const std::string& name, std::uint64_t mount_id);

// A part of the same for a directory that a caller passed: as much as fits into
// `bound`. Each call begins anew with what is left. Between two, and at the
// end, the directory has its owner and mode again; one that an executor was
// killed over is still root's, lies in a directory of the caller's, and is
// accepted and given to the caller.
Result<exec::TreeReply> RemoveSome(const Context& context, int fd,
                                   const exec::TreePlan& plan,
                                   const TreeBound& bound);

}  // namespace mountd::propagation
