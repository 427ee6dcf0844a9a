// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/plan/holder_plans.h"
#include "propagation/ground/context.h"

namespace mountd::propagation {

// Finds the processes that have a copy of a mount or volume of the plan. A
// *copy* is a mount that stays when mountd detaches its own mount. This file
// recognises a copy by device and root in /proc/<pid>/mountinfo (proc(5)),
// never by an id, because a runtime's bind is another mount of the same file
// system. A mount that propagation removes together with mountd's mount is not
// a copy. The parent of such a mount follows the parent of mountd's mount, at
// the same place (mount_namespaces(7)).
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
