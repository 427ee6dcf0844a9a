// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/result.h"
#include "mountd/plan/holder_plans.h"
#include "mountd/plan/task_plans.h"

namespace mountd::exec {

// The plans that look at processes and cgroups, and that stop them. Errors and
// threads as executor.h says.
class TaskExecutor {
 public:
  virtual ~TaskExecutor() = default;

  // NotFound if there is no such cgroup; PermissionDenied if no rule grants it.
  virtual Result<CgroupState> InspectCgroup(const CgroupPlan& plan) = 0;
  virtual Result<HoldersState> FindHolders(const HoldersPlan& plan) = 0;
  // PermissionDenied as for InspectCgroup. A removed cgroup has no processes.
  virtual Result<CopiesState> FindCopies(const CopiesPlan& plan) = 0;
  // NotFound and PermissionDenied as for InspectCgroup.
  virtual Result<HoldersState> FindProcesses(const ProcessesPlan& plan) = 0;
  // Returns the cgroup of the process of `pidfd`. FailedPrecondition if the
  // process has ended; PermissionDenied if no rule grants its cgroup.
  virtual Result<CgroupState> InspectTask(int pidfd) = 0;
  // FailedPrecondition if the process has ended or is in another cgroup.
  virtual Result<TaskState> VerifyTask(const VerifyTaskPlan& plan,
                                       int pidfd) = 0;

  // Stops the processes of a cgroup and returns once they have stopped. Busy if
  // they have not within the plan's budget. NotFound if the cgroup is gone, and
  // its processes with it. PermissionDenied if no rule grants that.
  // FailedPrecondition if the executor itself is in the cgroup.
  virtual Result<StopTasksState> StopTasks(const StopTasksPlan& plan) = 0;
};

}  // namespace mountd::exec
