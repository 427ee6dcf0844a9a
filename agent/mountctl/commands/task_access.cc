// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/commands/task_access.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>
#include <system_error>
#include <utility>

#include "agent/mountctl/commands/task_limits.h"
#include "agent/mountctl/tasks/detached_process.h"
#include "agent/mountctl/tasks/job_tasks.h"

namespace mountd::agent {
namespace {

Error NoTask(const std::string& text, const std::string& state) {
  return MakeError(Code::kNotFound, "find", text,
                   "no such task is in " + state +
                       "; `mountctl ps` lists those that are, and --state "
                       "names another directory");
}

Result<FoundTask> FindIn(const std::string& state,
                         const std::string& allocation, const std::string& task,
                         const std::string& text) {
  Result<JobDirectory> directory = JobDirectory::Open(state, allocation);
  if (!directory) {
    return directory.error().code == Code::kNotFound ? NoTask(text, state)
                                                     : directory.error();
  }
  MOUNTD_ASSIGN(std::optional<TaskRecord> record, directory->Read(task));
  if (!record) {
    return NoTask(text, state);
  }
  return FoundTask{*std::move(directory), *std::move(record)};
}

// Returns whether a task of the job may run. True also if the records cannot be
// read or the driver cannot say.
bool MayRun(const Context& context, const JobDirectory& directory) {
  const auto records = directory.Records();
  if (!records) {
    return true;
  }
  const auto driver = DriverOf(context, directory, nullptr);
  return std::any_of(
      records->begin(), records->end(), [&](const TaskRecord& record) {
        if (record.IsActive() || !driver) {
          return record.IsActive() || !record.handle.config.id.empty();
        }
        const auto status = FindTask(**driver, record.handle);
        return status ? status->state == driver::TaskState::kRunning
                      : status.error().code != Code::kNotFound;
      });
}

// Leaves a name without a slash as it is, because execvp(3) searches $PATH for
// it.
Result<std::string> RuntimeOf(const Context& context) {
  return context.runtime.find('/') == std::string::npos
             ? context.runtime
             : AbsolutePath(context.runtime);
}

}  // namespace

Result<FoundTask> ResolveTask(const Context& context, const std::string& text) {
  MOUNTD_ASSIGN(const std::string state, StatePath(context.state));
  if (const std::size_t slash = text.find('/'); slash != std::string::npos) {
    return FindIn(state, text.substr(0, slash), text.substr(slash + 1), text);
  }
  MOUNTD_ASSIGN(const std::vector<std::string> jobs, ListJobs(state));
  std::optional<FoundTask> found;
  std::optional<Error> unreadable;
  for (const std::string& job : jobs) {
    Result<FoundTask> one = FindIn(state, job, text, text);
    if (!one && one.error().code == Code::kNotFound) {
      continue;
    }
    if (!one) {
      unreadable = one.error();
      continue;
    }
    if (found) {
      return MakeError(Code::kInvalidArgument, "find", text,
                       "both " + found->directory.allocation() + " and " + job +
                           " have such a task; name it as ALLOCATION/NAME");
    }
    found = *std::move(one);
  }
  if (!found) {
    return unreadable ? *unreadable : NoTask(text, state);
  }
  return *std::move(found);
}

Result<std::string> AbsolutePath(const std::string& path) {
  std::error_code failed;
  // Symbolic links stay, because a link may lead elsewhere after an update.
  std::string absolute = std::filesystem::absolute(path, failed).string();
  if (failed) {
    return ErrnoError(failed.value(), "resolve", path);
  }
  return absolute;
}

Result<std::unique_ptr<driver::TaskDriver>> DriverOf(
    const Context& context, const JobDirectory& directory, Client* client) {
  MOUNTD_ASSIGN(const std::string state, StatePath(context.state));
  MOUNTD_ASSIGN(std::string cgroup, directory.Cgroup());
  MOUNTD_ASSIGN(std::string runtime, RuntimeOf(context));
  return context.make_driver(
      {state + "/tasks", std::move(runtime), std::move(cgroup), client});
}

Result<RunningTask> ReachTask(const Context& context, const std::string& text) {
  MOUNTD_ASSIGN(FoundTask found, ResolveTask(context, text));
  MOUNTD_ASSIGN(auto driver, DriverOf(context, found.directory, nullptr));
  const auto status = FindTask(*driver, found.record.handle);
  if (!status && status.error().code != Code::kNotFound) {
    return status.error();
  }
  if (!status || status->state != driver::TaskState::kRunning) {
    return MakeError(Code::kFailedPrecondition, "find", text,
                     "the task does not run; `mountctl ps` says why");
  }
  return RunningTask{std::move(found), std::move(driver)};
}

Result<Client> SecondClient(const Context& context) {
  ClientOptions options = context.options;
  options.on_call = {};
  return Client::Connect(options);
}

bool DoesNotRun(driver::TaskDriver& driver, const TaskRecord& record) {
  if (record.handle.config.id.empty()) {
    return true;
  }
  const auto status = FindTask(driver, record.handle);
  return status ? status->state != driver::TaskState::kRunning
                : status.error().code == Code::kNotFound;
}

Result<UniqueFd> LockJob(const Context& context,
                         const JobDirectory& directory) {
  using std::chrono::steady_clock;
  constexpr int kPauseMs = 50;
  const steady_clock::time_point end =
      steady_clock::now() + (context.options.join ? context.options.deadline
                                                  : std::chrono::seconds(0));
  bool told = false;
  for (;;) {
    MOUNTD_ASSIGN(std::optional<UniqueFd> lock, directory.TryLock());
    if (lock) {
      return *std::move(lock);
    }
    if (steady_clock::now() >= end) {
      return MakeError(Code::kUnavailable, "lock", directory.path(),
                       "another mountctl changes the tasks of " +
                           directory.allocation() +
                           " and has not ended in time; call again");
    }
    if (!std::exchange(told, true)) {
      std::cerr
          << "mountctl: waits for another mountctl that changes the tasks "
             "of "
          << directory.allocation() << std::endl;
    }
    (void)::poll(nullptr, 0, kPauseMs);
  }
}

Result<void> EnsureWatcher(const Context& context,
                           const JobDirectory& directory) {
  MOUNTD_ASSIGN(const std::optional<UniqueFd> watch, directory.TakeWatch());
  if (!watch) {
    return Ok();
  }
  MOUNTD_ASSIGN(const std::string state, StatePath(context.state));
  MOUNTD_ASSIGN(const std::string runtime, RuntimeOf(context));
  std::vector<std::string> arguments{"mountctl", "--state", state, "--runtime",
                                     runtime};
  if (context.options.system_bus) {
    arguments.emplace_back("--bus");
  } else if (!context.options.address.empty()) {
    arguments.insert(arguments.end(), {"--address", context.options.address});
  }
  arguments.insert(arguments.end(), {"watch", directory.allocation(), "--lock",
                                     std::to_string(watch->get())});
  return StartDetached(arguments, watch->get(),
                       directory.path() + "/watcher.log");
}

Result<std::vector<std::string>> AllocationsWithTasks(const Context& context) {
  std::vector<std::string> busy;
  const auto state = StatePath(context.state);
  if (!state) {
    return busy;  // a user without a home runs no tasks
  }
  MOUNTD_ASSIGN(const std::vector<std::string> jobs, ListJobs(*state));
  for (const std::string& job : jobs) {
    const auto directory = JobDirectory::Open(*state, job);
    if (directory ? MayRun(context, *directory)
                  : directory.error().code != Code::kNotFound) {
      busy.push_back(job);
    }
  }
  return busy;
}

Result<void> RunJobWithTasks(const Context& context, Client& client,
                             const Job& job, RunOptions options,
                             const std::string& cgroup, std::ostream& out) {
  if (job.tasks.empty()) {
    return RunJob(client, job, options, out);
  }
  MOUNTD_ASSIGN(const std::string state, StatePath(context.state));
  MOUNTD_ASSIGN(const JobDirectory::Locked locked,
                JobDirectory::MakeLocked(state, job.allocation,
                                         [&context](const JobDirectory& made) {
                                           return LockJob(context, made);
                                         }));
  const JobDirectory& directory = locked.directory;
  if (!cgroup.empty()) {
    MOUNTD_ASSIGN(const std::string absolute, AbsolutePath(cgroup));
    MOUNTD_TRY(directory.SetCgroup(absolute));
  }
  // The driver gets a client of its own, because its threads call mountd, too.
  MOUNTD_ASSIGN(Client second, SecondClient(context));
  MOUNTD_ASSIGN(const auto driver, DriverOf(context, directory, &second));
  const RunTasks tasks{*driver, directory, [&context, &directory] {
                         return EnsureWatcher(context, directory);
                       }};
  options.tasks = &tasks;
  MOUNTD_ASSIGN(options.warnings, LimitsLeftOut(*driver, job, cgroup));
  for (const std::string& warning : options.warnings) {
    std::cerr << "mountctl: " << warning << std::endl;
  }
  Result<void> done = RunJob(client, job, options, out);
  const auto records = directory.Records();
  // RunJob has failed and released the allocation, so the job's directory can
  // go. The directory stays if the driver has not forgotten a start, because
  // its task may run.
  if (!done && records &&
      std::all_of(records->begin(), records->end(),
                  [](const TaskRecord& record) {
                    return record.phase == TaskPhase::kStopped &&
                           record.handle.config.id.empty();
                  })) {
    IgnoreBecauseBestEffort(directory.Remove([&](const std::string& path) {
      return driver->RemoveDirectory(path);
    }));
  }
  return done;
}

}  // namespace mountd::agent
