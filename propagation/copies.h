// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/context.h"

namespace mountd::propagation {

// Which processes can still use what the plan names, by mounts that mountd's
// detaching does not take from them. A copy is told by device and root in
// /proc/<pid>/mountinfo (proc(5)), never by an id: a runtime's bind is another
// mount of the same file system. No copy in this sense is a mount that goes by
// propagation with one of mountd's: its parent follows the parent of ours, at
// the same place (mount_namespaces(7)).
//
// Of a file system that is a volume's or a mount's own (root "/"), who has a
// file, a directory or a mapping of a tree that is attached nowhere is found,
// too; of a block device, who has it open.
//
// A part of the answer is none: `incomplete` means that there may be more. The
// errors are those of OpenCgroup, but for NotFound: a cgroup that is gone has
// no processes.
Result<exec::CopiesState> FindCopies(const Context& context,
                                     const exec::CopiesPlan& plan);

}  // namespace mountd::propagation
