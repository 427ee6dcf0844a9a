// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <vector>

#include "agent/mountctl/job/run.h"
#include "agent/mountctl/tasks/job_tasks.h"
#include "agent/types.h"
#include "mountd/base/unique_fd.h"

// The steps of RunJob that are about tasks.
namespace mountd::agent {

// Returns whether a task of the job is in the allocation's network.
bool NeedsNamespaces(const Job& job);

// Makes the namespaces that the job's tasks share, or finds them.
Result<driver::NetworkIsolation> CreateNamespaces(const RunTasks& tasks,
                                                  const Job& job);

// Opens the network namespace for SetupNetwork; an invalid fd if there is none.
Result<UniqueFd> OpenNamespaceOf(const driver::NetworkIsolation& isolation);

// Starts a watcher, unless there is one, if a task of the job may restart.
Result<void> WatchTasks(const RunTasks& tasks, const Job& job);

// Starts the job's task of that index with its mounts and its directories.
// /alloc and /local are in the job's directory, and /secrets is a tmpfs of
// mountd's. A task has no directory where the job mounts something at that
// path. False if the task runs already.
Result<bool> StartTask(Client& client, const RunTasks& tasks, const Job& job,
                       std::size_t index,
                       const std::vector<MountStatus>& mounts,
                       const driver::NetworkIsolation& isolation);

}  // namespace mountd::agent
