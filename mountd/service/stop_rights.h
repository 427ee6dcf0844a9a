// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>

#include "mountd/policy/policy.h"
#include "mountd/service/service_parts.h"

// The right of a lease to stop tasks. For a caller the kernel says which groups
// it has. A fence has no caller, so mountd can only ask the user database.
// mountd asks only if a rule's group decides, because the database may be slow
// or away.
namespace mountd {

// Ok if a rule lets the caller stop the cgroup's tasks in this way, and the
// lease's fence can find such a rule later without the caller. `policy` is the
// policy of the call. FailedPrecondition if only a group grants the stop, and
// the user database does not list that group for the user. Unavailable if the
// database cannot be read.
Result<void> MayFence(const ServiceParts& parts, const Policy& policy,
                      const Caller& caller, const std::string& cgroup,
                      exec::TaskStop how);

// Stops the tasks of the fence in the name of the lease's user. Returns the
// errors of Executor::StopTasks. Unavailable if the user database cannot be
// read.
Result<exec::StopTasksState> StopFenced(const ServiceParts& parts,
                                        const FenceRecord& fence);

}  // namespace mountd
