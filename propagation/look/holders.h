// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/plan/holder_plans.h"
#include "propagation/ground/context.h"

namespace mountd::propagation {

// Finds processes that use the mount as their working or root directory,
// program, open file or mapped file. Looks for the mount itself, attached or
// not, and for copies of it in each process's own mount namespace, because a
// copy can keep the mount busy, too. Does not look at threads that have files
// of their own.
//
// For handed-out mounts, also finds processes in whose mount namespace such a
// mount is attached, because a process that attached the mount need not have it
// open.
//
// Opens none of the processes' files. But NFS and 9P may ask the server when
// the kernel follows a magic link into them, and hang with it.
Result<exec::HoldersState> FindHolders(const Context& context,
                                       const exec::HoldersPlan& plan);

}  // namespace mountd::propagation
