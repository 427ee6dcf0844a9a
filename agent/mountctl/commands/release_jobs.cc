// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/commands/release_jobs.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <system_error>
#include <vector>

#include "agent/mountctl/commands/one_task.h"
#include "agent/mountctl/commands/task_access.h"
#include "agent/mountctl/tasks/job_tasks.h"

namespace mountd::agent {
namespace {

namespace fs = std::filesystem;

// Checks that no task of another state directory runs in the allocation. mountd
// knows of such a task only by its mounts and its cgroup.
Result<void> CheckNoTaskElsewhere(const Context& context,
                                  const std::string& allocation) {
  if (!context.find_tasks) {
    return Ok();
  }
  const Result<std::string> state = StatePath(context.state);
  const fs::path own = state ? fs::path(*state + "/tasks/tasks") : fs::path();
  MOUNTD_ASSIGN(const std::vector<std::string> tasks,
                context.find_tasks(allocation));
  for (const std::string& task : tasks) {
    // <state>/tasks/tasks/<key>
    const fs::path directory = fs::path(task).parent_path();
    std::error_code absent;
    if (fs::equivalent(directory, own, absent)) {
      continue;
    }
    const std::string other = directory.parent_path().parent_path().string();
    return MakeError(Code::kFailedPrecondition, "stop", allocation,
                     "a task of the allocation runs from another state "
                     "directory; call `mountctl --state " +
                         other + " stop " + allocation +
                         "`, or end the task by the agent that started it");
  }
  return Ok();
}

Result<void> EndTasksIn(const Context& context, const JobDirectory& directory) {
  const auto records = directory.Records();
  if (records && records->empty()) {
    return Ok();
  }
  MOUNTD_ASSIGN(Client second, SecondClient(context));
  MOUNTD_ASSIGN(const auto driver, DriverOf(context, directory, &second));
  return JobTasks(*driver, directory).StopAll();
}

// Does StopAllocation's work for a holder of the job's lock.
Result<Receipt> StopJob(const Context& context, Client& client,
                        const JobDirectory& directory, OnTasks on_tasks) {
  MOUNTD_TRY(EndTasksIn(context, directory));
  Result<Receipt> receipt =
      client.ReleaseAllocation(directory.allocation(), on_tasks);
  if (receipt || receipt.error().code == Code::kNotFound) {
    // Makes the driver only if it must remove files of the tasks' users,
    // because a driver may be unable to start.
    MOUNTD_TRY(directory.Remove([&](const std::string& path) -> Result<void> {
      MOUNTD_ASSIGN(const auto driver, DriverOf(context, directory, nullptr));
      return driver->RemoveDirectory(path);
    }));
  }
  return receipt;
}

// Releases an allocation in which this state runs no tasks.
Result<Receipt> ReleaseWithoutJob(Client& client, const std::string& allocation,
                                  OnTasks on_tasks,
                                  const Result<std::string>& state) {
  Result<Receipt> receipt = client.ReleaseAllocation(allocation, on_tasks);
  if (!receipt && receipt.error().code == Code::kNotFound && state) {
    Error error = receipt.error();
    error.detail += "; " + *state + " has no job of it either";
    return error;
  }
  return receipt;
}

// Does nothing if the job no longer owes its release, or another mountctl has
// its lock.
Result<void> ReleaseIfOwed(const Context& context, Client& client,
                           const JobDirectory& directory) {
  MOUNTD_ASSIGN(const std::optional<UniqueFd> lock, directory.TryLock());
  if (!lock || !OwesRelease(context, directory)) {
    return Ok();
  }
  MOUNTD_TRY(StopJob(context, client, directory, OnTasks::kRefuse));
  return Ok();
}

}  // namespace

Result<bool> EndTasks(const Context& context, const std::string& allocation) {
  MOUNTD_ASSIGN(const std::string state, StatePath(context.state));
  const auto directory = JobDirectory::Open(state, allocation);
  if (!directory && directory.error().code == Code::kNotFound) {
    return false;
  }
  if (!directory) {
    return directory.error();
  }
  MOUNTD_ASSIGN(const UniqueFd lock, LockJob(context, *directory));
  MOUNTD_ASSIGN(const auto driver, DriverOf(context, *directory, nullptr));
  MOUNTD_TRY(JobTasks(*driver, *directory).StopAll());
  return true;
}

Result<Receipt> StopAllocation(const Context& context, Client& client,
                               const std::string& allocation,
                               OnTasks on_tasks) {
  MOUNTD_TRY(CheckNoTaskElsewhere(context, allocation));
  const Result<std::string> state = StatePath(context.state);
  const auto known =
      state ? JobDirectory::Open(*state, allocation) : state.error();
  // The allocation is another agent's, or this user has no home directory.
  if (!known && (!state || known.error().code == Code::kNotFound ||
                 known.error().code == Code::kInvalidArgument)) {
    return ReleaseWithoutJob(client, allocation, on_tasks, state);
  }
  // Makes the parts of the job's directory that a killed run has not made.
  MOUNTD_ASSIGN(const JobDirectory::Locked locked,
                JobDirectory::MakeLocked(*state, allocation,
                                         [&context](const JobDirectory& made) {
                                           return LockJob(context, made);
                                         }));
  return StopJob(context, client, locked.directory, on_tasks);
}

Result<Receipt> ReleaseOnlyIf(const Context& context, Client& client,
                              const std::string& allocation, OnTasks on_tasks,
                              OnlyIf only_if) {
  const Result<std::string> state = StatePath(context.state);
  if (state && JobDirectory::Open(*state, allocation)) {
    return MakeError(Code::kFailedPrecondition, "release",
                     "allocation " + allocation,
                     "mountctl runs a job in it; leave out --only-if");
  }
  return client.ReleaseAllocation(allocation, on_tasks, only_if);
}

bool OwesRelease(const Context& context, const JobDirectory& directory) {
  const auto records = directory.Records();
  const auto watched = directory.IsWatched();
  if (!records || !watched || *watched) {
    return false;
  }
  // A kill before the first record leaves an allocation without any record.
  if (records->empty()) {
    return IsUnnamed(directory.allocation());
  }
  if (!std::all_of(
          records->begin(), records->end(),
          [](const TaskRecord& record) { return record.spec.remove; })) {
    return false;
  }
  const auto driver = DriverOf(context, directory, nullptr);
  return driver && std::all_of(records->begin(), records->end(),
                               [&](const TaskRecord& record) {
                                 return record.spec.holds_exec ||
                                        DoesNotRun(**driver, record);
                               });
}

void ReleaseOwed(const Context& context) {
  const auto state = StatePath(context.state);
  const auto jobs = state ? ListJobs(*state) : state.error();
  std::optional<Result<Client>> client;
  for (const std::string& job : jobs ? *jobs : std::vector<std::string>()) {
    const auto directory = JobDirectory::Open(*state, job);
    if (!directory || !OwesRelease(context, *directory)) {
      continue;
    }
    if (!client) {
      client = Client::Connect(context.options);
    }
    const Result<void> released =
        *client ? ReleaseIfOwed(context, **client, *directory)
                : client->error();
    if (!released) {
      std::cerr << "mountctl: " << job
                << " is not yet released, and the next mountctl tries again: "
                << released.error().Message() << std::endl;
    }
  }
}

}  // namespace mountd::agent
