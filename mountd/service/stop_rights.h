// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>

#include "mountd/policy/policy.h"
#include "mountd/service/service_parts.h"

// The right to stop tasks of a lease. The kernel says which groups a caller
// has. A fence has no caller, so it knows the groups of the user database
// alone. mountd asks the database only if a rule's group decides, because the
// database may be slow or away.
namespace mountd {

// Ok if a rule lets the caller stop the cgroup's tasks so, and the fence of a
// lease finds such a rule again. `policy` is that of the call.
// FailedPrecondition if only a group grants it that the user database does not
// list for the user. Unavailable if that database cannot be read.
Result<void> MayFence(const ServiceParts& parts, const Policy& policy,
                      const Caller& caller, const std::string& cgroup,
                      exec::TaskStop how);

// Stops the tasks of the fence in the name of the lease's user. The errors are
// those of Executor::StopTasks, and Unavailable as above.
Result<exec::StopTasksState> StopFenced(const ServiceParts& parts,
                                        const FenceRecord& fence);

}  // namespace mountd
