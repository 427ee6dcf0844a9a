// SPDX-License-Identifier: LGPL-2.1-or-later
#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "agent/mountctl/commands/log_output.h"
#include "agent/mountctl/commands/task_access.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/tasks/job_tasks.h"

namespace mountd::agent {
namespace {

constexpr char kTaskForm[] = "The task: ALLOC/NAME or NAME";

// Says whether nobody can write to the log any more, so that following it ends.
// Asks the driver for a task without a watcher, because only a watcher records
// the end of a task.
bool CannotWriteAgain(driver::TaskDriver& driver, const FoundTask& found,
                      const TaskRecord& record) {
  if (record.phase != TaskPhase::kRunning) {
    return !record.IsActive();
  }
  const auto watched = found.directory.IsWatched();
  if (record.spec.restart.Restarts() && (!watched || *watched)) {
    return false;
  }
  const auto status = FindTask(driver, record.handle);
  return status ? status->state != driver::TaskState::kRunning
                : status.error().code == Code::kNotFound;
}

// Follows the log from start to start, because each start has a log of its own
// in the journal.
Result<void> FollowLog(const Context& context, const FoundTask& found,
                       LogChoice choice, int fd) {
  MOUNTD_ASSIGN(const auto driver, DriverOf(context, found.directory, nullptr));
  TaskRecord record = found.record;
  std::optional<TaskRecord> next = record;
  while (next) {
    record = *std::exchange(next, std::nullopt);
    MOUNTD_TRY(CopyLog(context, record, choice, fd, [&] {
      const auto newest = found.directory.Read(record.name());
      if (!newest || !*newest) {
        return newest.has_value();
      }
      if (record.handle.config.logs.mode == driver::LogMode::kJournal &&
          (*newest)->phase == TaskPhase::kRunning &&
          (*newest)->handle.config.id != record.handle.config.id) {
        next = **newest;
      }
      return next.has_value() || CannotWriteAgain(*driver, found, **newest);
    }));
    choice.tail_lines.reset();
  }
  return Ok();
}

Result<void> PrintStream(const Context& context, const FoundTask& found,
                         const LogChoice& choice, int fd) {
  return choice.follow
             ? FollowLog(context, found, choice, fd)
             : CopyLog(context, found.record, choice, fd, [] { return true; });
}

struct LogStreams {
  bool out = false;
  bool err = false;  // neither: both
};

Result<void> PrintLog(const Context& context, const std::string& task,
                      LogChoice choice, const LogStreams& streams) {
  MOUNTD_ASSIGN(const FoundTask found, ResolveTask(context, task));
  choice.standard_error = streams.err;
  if (streams.out != streams.err) {
    return PrintStream(context, found, choice, STDOUT_FILENO);
  }
  Result<void> errors;
  LogChoice other = choice;
  other.standard_error = true;
  choice.standard_error = false;
  std::thread printing(
      [&] { errors = PrintStream(context, found, other, STDERR_FILENO); });
  const Result<void> done = PrintStream(context, found, choice, STDOUT_FILENO);
  printing.join();
  MOUNTD_TRY(done);
  return errors;
}

void AddLogs(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("logs", "Print what a task has written");
  command->group(kTasksGroup);
  auto task = std::make_shared<std::string>();
  auto choice = std::make_shared<LogChoice>();
  command->add_flag("-f,--follow", choice->follow,
                    "Go on with what the task writes, across its restarts");
  command->add_option("--tail", choice->tail_lines,
                      "Print only the last so many lines");
  auto streams = std::make_shared<LogStreams>();
  command->add_flag("--stdout", streams->out,
                    "Print stdout alone (default: each stream of the task to "
                    "that of mountctl)");
  command->add_flag("--stderr", streams->err, "Print stderr alone, on stdout");
  command->add_option("TASK", *task, kTaskForm)->required();
  command->callback([&context, task, choice, streams] {
    context.chosen = [&context, task, choice, streams] {
      const auto done = PrintLog(context, *task, *choice, *streams);
      return done ? kExitOk : Fail(done.error());
    };
  });
}

void PrintDone(const Context& context, const FoundTask& found,
               const std::string& what) {
  const std::string name =
      found.directory.allocation() + "/" + found.record.name();
  if (context.json) {
    std::cout << Dump({{"task", name}, {"done", what}}) << std::endl;
  } else {
    std::cout << name << ": " << what << std::endl;
  }
}

void AddSignal(CLI::App& app, Context& context) {
  auto* command =
      app.add_subcommand("signal", "Send a signal to a task's first process");
  command->group(kTasksGroup);
  auto task = std::make_shared<std::string>();
  auto name = std::make_shared<std::string>();
  command->add_option("TASK", *task, kTaskForm)->required();
  command->add_option("SIGNAL", *name, "The signal, such as SIGHUP")
      ->required();
  command->callback([&context, task, name] {
    context.chosen = [&context, task, name] {
      const auto done = [&]() -> Result<void> {
        MOUNTD_ASSIGN(const RunningTask running, ReachTask(context, *task));
        MOUNTD_TRY(running.driver->SignalTask(running.id(), *name));
        PrintDone(context, running.found, "got " + *name);
        return Ok();
      }();
      return done ? kExitOk : Fail(done.error());
    };
  });
}

Result<void> Restart(const Context& context, Client& client,
                     const std::string& task) {
  MOUNTD_ASSIGN(const FoundTask found, ResolveTask(context, task));
  MOUNTD_ASSIGN(const UniqueFd lock, LockJob(context, found.directory));
  // Another process may have changed the record before the lock.
  MOUNTD_ASSIGN(std::optional<TaskRecord> record,
                found.directory.Read(found.record.name()));
  if (!record) {
    return MakeError(Code::kNotFound, "find", task,
                     "the task was removed meanwhile");
  }
  MOUNTD_ASSIGN(const auto driver, DriverOf(context, found.directory, &client));
  if (record->spec.restart.Restarts()) {
    MOUNTD_TRY(EnsureWatcher(context, found.directory));
  }
  JobTasks tasks(*driver, found.directory);
  MOUNTD_TRY(tasks.Stop(*record));
  record->restarts = {};
  MOUNTD_TRY(tasks.StartAgain(*std::move(record)));
  PrintDone(context, found, "restarted");
  return Ok();
}

void AddRestart(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand(
      "restart", "End a task and start it again; its restarts count from 0");
  command->group(kTasksGroup);
  auto task = std::make_shared<std::string>();
  command->add_option("TASK", *task, kTaskForm)->required();
  command->callback([&context, task] {
    context.chosen = [&context, task] {
      return WithClient(context, [&](Client& client) {
        return Restart(context, client, *task);
      });
    };
  });
}

}  // namespace

void AddTaskControlCommands(CLI::App& app, Context& context) {
  AddLogs(app, context);
  AddSignal(app, context);
  AddRestart(app, context);
}

}  // namespace mountd::agent
