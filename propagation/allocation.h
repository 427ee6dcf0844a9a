// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/ground/base.h"

// This file makes and removes the directories base/a/<allocation>.
namespace mountd::propagation {

// Makes the allocation's directory, which only the plan's user and group may
// pass (propagation/ground/passage.h). Idempotent. The answer carries no facts:
// it only says that the plan is done. FailedPrecondition if another user may
// pass the directory.
Result<void> PrepareAllocation(const Context& context,
                               const exec::AllocationPlan& plan,
                               const exec::Tell<exec::MountState>& tell);

// Removes the directory and everything that interrupted plans left in it: task
// directories, mountpoints, and mounts, which this function detaches as Detach
// does. Busy if one of these mounts is in use, or if a mount lies where no plan
// mounts, because such a mount is not mountd's.
Result<void> RemoveAllocation(const Context& context,
                              const exec::AllocationPlan& plan);

}  // namespace mountd::propagation
