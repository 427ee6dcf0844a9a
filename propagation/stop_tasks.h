// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/plan/task_plans.h"
#include "propagation/ground/context.h"

namespace mountd::propagation {

// Freezes or kills all processes of a cgroup and of the cgroups beneath it, and
// returns once cgroup.events says so (cgroups(7), the kernel's cgroup-v2.rst).
// Also kills processes that join the cgroup meanwhile.
//
// The errors are those of OpenCgroup. PermissionDenied unless one rule of the
// plan's owner grants both the cgroup and this way to stop tasks. A cgroup
// without processes needs no rule, because nothing is stopped there.
// FailedPrecondition if the executor itself is in the cgroup, or the cgroup is
// of a service of mountd's. NotSupported for the root cgroup, and to kill in a
// threaded cgroup. Busy if some process has not stopped in time.
Result<exec::StopTasksState> StopTasks(const Context& context,
                                       const exec::StopTasksPlan& plan);

}  // namespace mountd::propagation
