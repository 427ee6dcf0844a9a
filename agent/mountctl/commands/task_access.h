// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/driver/task_driver.h"
#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/job/run.h"
#include "agent/mountctl/tasks/job_directory.h"

// The tasks that commands name, and the driver that runs them.
namespace mountd::agent {

struct FoundTask {
  JobDirectory directory;
  TaskRecord record;
};

// Finds a task by "ALLOCATION/NAME", or by a NAME that one job alone has.
// NotFound if there is no such task; InvalidArgument if several jobs have it.
Result<FoundTask> ResolveTask(const Context& context, const std::string& text);

// Returns the path as seen from "/", where a watcher runs.
Result<std::string> AbsolutePath(const std::string& path);

// Makes the driver of a job's tasks. `client` may be null, and outlives the
// driver.
Result<std::unique_ptr<driver::TaskDriver>> DriverOf(
    const Context& context, const JobDirectory& directory, Client* client);

// A task that runs, and a driver that knows the task. ReachTask finds the task,
// and answers FailedPrecondition unless the task runs.
struct RunningTask {
  FoundTask found;
  std::unique_ptr<driver::TaskDriver> driver;
  const std::string& id() const { return found.record.handle.config.id; }
};
Result<RunningTask> ReachTask(const Context& context, const std::string& text);

// Takes the job's lock. Tells the caller on stderr if another mountctl has it,
// and waits until --timeout. Unavailable after that.
Result<UniqueFd> LockJob(const Context& context, const JobDirectory& directory);

// Starts a watcher of the job unless there is one.
Result<void> EnsureWatcher(const Context& context,
                           const JobDirectory& directory);

// Returns the allocations in which a task of mountctl's may run, sorted.
// Includes a job that cannot be read.
Result<std::vector<std::string>> AllocationsWithTasks(const Context& context);

// Sets up an allocation with its tasks, as RunJob does, under the job's lock.
// `cgroup` is the path of the tasks' cgroup; "": none. Without tasks this is
// RunJob.
Result<void> RunJobWithTasks(const Context& context, Client& client,
                             const Job& job, RunOptions options,
                             const std::string& cgroup, std::ostream& out);

// Returns another connection to mountd, for a driver's threads.
Result<Client> SecondClient(const Context& context);

// Returns whether the task's program has ended. False if the driver cannot say.
bool DoesNotRun(driver::TaskDriver& driver, const TaskRecord& record);

}  // namespace mountd::agent
