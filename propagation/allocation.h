// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/base.h"

// The directories base/a/<allocation>.
namespace mountd::propagation {

// Makes the directory, where the plan's user alone may pass
// (propagation/passage.h). Idempotent; FailedPrecondition if another user may.
// Tells nothing but that it is done.
Result<void> PrepareAllocation(const Context& context,
                               const exec::AllocationPlan& plan,
                               const exec::Tell<exec::MountState>& tell);

// Removes the directory with what interrupted plans left in it: task
// directories, mountpoints, and mounts, which are detached as Detach does it.
// Busy while one is used, or something is mounted where no plan mounts: that is
// somebody else's.
Result<void> RemoveAllocation(const Context& context,
                              const exec::AllocationPlan& plan);

}  // namespace mountd::propagation
