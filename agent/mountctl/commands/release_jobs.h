// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/tasks/job_directory.h"
#include "agent/types.h"
#include "mountd/base/result.h"

// The releases of allocations in which mountctl may run tasks.
namespace mountd::agent {

// Ends the allocation's tasks, if mountctl runs any, releases the allocation,
// and forgets its job. FailedPrecondition, and nothing has changed, if a task
// of the allocation runs from another directory than --state.
Result<Receipt> StopAllocation(const Context& context, Client& client,
                               const std::string& allocation, OnTasks on_tasks);

// Releases an allocation that is as `only_if` says; Busy otherwise. Ends no
// task. FailedPrecondition if mountctl runs a job in the allocation.
Result<Receipt> ReleaseOnlyIf(const Context& context, Client& client,
                              const std::string& allocation, OnTasks on_tasks,
                              OnlyIf only_if);

// Ends the tasks that mountctl runs in the allocation, without mountd. False if
// mountctl runs none there.
Result<bool> EndTasks(const Context& context, const std::string& allocation);

// Returns whether this mountctl must release the allocation: it has only tasks
// of `task run --rm` without --name, no task has work left, and somebody has
// killed the mountctl that was to release it, maybe before the first record.
// The caller holds the job's lock, because the answer may change otherwise.
bool OwesRelease(const Context& context, const JobDirectory& directory);

// Releases each allocation of this state for which OwesRelease is true.
// Connects to mountd only if there is such an allocation. Prints errors to
// stderr; the next call tries again.
void ReleaseOwed(const Context& context);

}  // namespace mountd::agent
