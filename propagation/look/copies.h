// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/plan/holder_plans.h"
#include "propagation/ground/context.h"

namespace mountd::propagation {

// Finds the processes that can still use what the plan names, through mounts
// that stay when mountd detaches its own. Such a mount is a *copy*. This file
// knows a copy by device and root in /proc/<pid>/mountinfo (proc(5)), never by
// an id, because a runtime's bind is another mount of the same file system. A
// mount that goes with one of mountd's by propagation is not a copy: its parent
// follows the parent of mountd's mount, at the same place
// (mount_namespaces(7)).
//
// For the file system of a volume or of a mount (root "/"), also finds
// processes that hold a file, a directory or a mapping of a tree that is
// attached nowhere. For a block device, also finds processes that have it open.
//
// `incomplete` means that there may be more holders than the answer lists. The
// errors are those of OpenCgroup except NotFound: a cgroup that is gone has no
// processes.
Result<exec::CopiesState> FindCopies(const Context& context,
                                     const exec::CopiesPlan& plan);

}  // namespace mountd::propagation
