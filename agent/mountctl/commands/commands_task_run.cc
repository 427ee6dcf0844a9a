// SPDX-License-Identifier: LGPL-2.1-or-later
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "agent/mountctl/commands/command_line.h"
#include "agent/mountctl/commands/exec_task.h"
#include "agent/mountctl/commands/log_output.h"
#include "agent/mountctl/commands/one_task.h"
#include "agent/mountctl/commands/port_text.h"
#include "agent/mountctl/commands/release_jobs.h"
#include "agent/mountctl/commands/task_access.h"
#include "agent/mountctl/commands/task_stats.h"
#include "agent/mountctl/tasks/end_signals.h"
#include "agent/mountctl/tasks/job_tasks.h"
#include "agent/mountctl/tasks/random_hex.h"

namespace mountd::agent {
namespace {

constexpr char kTaskRunDetails[] = R"(
Details:
  Without -d, mountctl prints what the task writes, and ends with the task's
  exit status, or with 128 and the signal. SIGINT, SIGTERM, SIGHUP and SIGQUIT
  end the task, a second one kills it, and so does the end of stdout's reader.
  While the task starts, mountctl waits for the start first; a second signal
  ends mountctl alone, and `mountctl stop` ends the rest.

  With -i or -t, /bin/sh and sleep of the image hold the task, and COMMAND runs
  by exec in it. The task ends with COMMAND.

  mountctl's own failure is 125. A COMMAND that cannot be executed is 126, and
  one that is not in the image 127.

  The allocation stays until `mountctl stop`, unless --rm is given. A SRC is the
  name of a host volume, filesystem:NAME, or the path of a directory beneath
  your alloc_roots.)";

// Called for a signal while the task starts. The first signal waits for the
// start, because only a started task can be ended. The second signal ends
// mountctl.
void WaitForStart(const EndSignals& signals, int count) {
  if (count > 1) {
    signals.EndProcess();
  }
  std::cerr << "mountctl: the task ends once it has started; a second signal "
               "ends mountctl alone"
            << std::endl;
}

// Ends the task, or kills it.
void EndTask(const RunningTask& task, bool at_once) {
  const TaskSpec& spec = task.found.record.spec;
  // WaitTask returns how the task ended.
  IgnoreBecauseBestEffort(
      at_once ? task.driver->StopTask(task.id(), {}, "SIGKILL")
              : task.driver->StopTask(task.id(), spec.kill_timeout,
                                      spec.kill_signal));
}

// Prints both streams until the task ends. Returns how it ended.
Result<driver::ExitResult> Attach(const Context& context,
                                  const RunningTask& task,
                                  EndSignals& signals) {
  std::atomic<bool> ended{false};
  Result<driver::ExitResult> result = driver::ExitResult();
  std::thread waiting([&] {
    result = task.driver->WaitTask(task.id());
    ended = true;
  });
  signals.Then([&task](int count) { EndTask(task, count > 1); });
  const auto copy = [&](bool standard_error, int fd) {
    const LogChoice choice{.standard_error = standard_error, .follow = true};
    Result<void> copied = CopyLog(context, task.found.record, choice, fd,
                                  [&] { return ended.load(); });
    if (!copied && !standard_error) {
      EndTask(task, false);
    }
    return copied;
  };
  std::thread errors(
      [&] { IgnoreBecauseBestEffort(copy(true, STDERR_FILENO)); });
  const Result<void> copied = copy(false, STDOUT_FILENO);
  errors.join();
  waiting.join();
  signals.Then({});
  MOUNTD_TRY(copied);
  return result;
}

// Runs the command by exec in the task, whose first process only waits, and
// then ends the task.
Result<int> RunByExec(const Context& context, const OneTask& one,
                      const RunningTask& task, EndSignals& signals) {
  signals.Then([&task](int /*count*/) { task.driver->Shutdown(); });
  Result<int> status = ExecInTask(*task.driver, task.id(), one.command,
                                  one.interactive, one.terminal);
  signals.Then({});
  if (!status && signals.first() != 0) {
    status = ExitStatusOf({.signal = signals.first()});
  }
  // Makes another driver, because a signal may have shut down `task.driver`.
  MOUNTD_ASSIGN(const auto driver,
                DriverOf(context, task.found.directory, nullptr));
  MOUNTD_ASSIGN(const UniqueFd lock, task.found.directory.Lock());
  MOUNTD_TRY(JobTasks(*driver, task.found.directory).Stop(task.found.record));
  return status;
}

// Runs the foreground part, and records its end.
Result<int> RunHere(const Context& context, const OneTask& one,
                    const std::string& name, EndSignals& signals) {
  // The driver gets no client, because only a start needs mountd.
  MOUNTD_ASSIGN(FoundTask resolved, ResolveTask(context, name));
  MOUNTD_ASSIGN(auto driver, DriverOf(context, resolved.directory, nullptr));
  MOUNTD_TRY(driver->RecoverTask(resolved.record.handle));
  const RunningTask task{std::move(resolved), std::move(driver)};
  const FoundTask& found = task.found;
  if (one.ByExec()) {
    return RunByExec(context, one, task, signals);
  }
  const auto result = Attach(context, task, signals);
  if (!result && result.error().sys_errno == EPIPE) {
    return ExitStatusOf({.signal = SIGPIPE});
  }
  if (!result) {
    return result.error();
  }
  MOUNTD_ASSIGN(const UniqueFd lock, found.directory.Lock());
  MOUNTD_TRY(
      JobTasks(*task.driver, found.directory)
          .RecordEnd(found.record.name(), task.id(), *result, BootTime(0)));
  if (!result->error.empty()) {
    return MakeError(Code::kInternal, "wait", name, result->error);
  }
  return ExitStatusOf(*result);
}

// With --rm, takes the lock of the job's watcher, which tells other mountctls
// that this process will release the allocation. The kernel releases the lock
// if somebody kills this process.
Result<UniqueFd> LookAfter(const Context& context, const OneTask& one,
                           const std::string& state, const Job& job) {
  if (!one.remove) {
    return UniqueFd();
  }
  // Takes it under the job's lock, because another mountctl could otherwise see
  // a job without a watcher, and release the allocation.
  MOUNTD_ASSIGN(const JobDirectory::Locked locked,
                JobDirectory::MakeLocked(state, job.allocation,
                                         [&context](const JobDirectory& made) {
                                           return LockJob(context, made);
                                         }));
  MOUNTD_ASSIGN(std::optional<UniqueFd> lock, locked.directory.TakeWatch());
  return lock ? *std::move(lock) : UniqueFd();
}

Result<int> RunOne(const Context& context, Client& client, const OneTask& one) {
  MOUNTD_ASSIGN(const std::string random, RandomHex("the allocation"));
  MOUNTD_ASSIGN(const Job job, JobOf(one, random));
  MOUNTD_ASSIGN(const std::string state, StatePath(context.state));
  if (JobDirectory::Open(state, job.allocation)) {
    return MakeError(Code::kAlreadyExists, "run", job.allocation,
                     "mountctl runs tasks of this allocation; choose another "
                     "--name, or call `mountctl stop` first");
  }
  // Checks this first, because the command cannot run without a terminal.
  if (one.terminal && ::isatty(STDIN_FILENO) == 0) {
    return MakeError(Code::kInvalidArgument, "task run", "stdin",
                     "stdin is no terminal; leave out -t");
  }
  const std::string name = job.allocation + "/" + job.tasks.front().config.name;
  std::optional<EndSignals> signals;
  if (!one.detach) {
    signals.emplace();
    signals->Then([&signals](int count) { WaitForStart(*signals, count); });
  }
  MOUNTD_ASSIGN(const UniqueFd looks_after,
                LookAfter(context, one, state, job));
  std::ostringstream steps;  // the task's output alone goes to stdout
  MOUNTD_TRY(RunJobWithTasks(context, client, job, {}, "", steps));
  if (one.detach) {
    std::cout << name << std::endl;
    return kExitOk;
  }
  Result<int> status = RunHere(context, one, name, *signals);
  if (one.remove) {
    // If somebody kills this process, a later mountctl releases the allocation,
    // because the task's record says so.
    const auto released =
        StopAllocation(context, client, job.allocation, OnTasks::kRefuse);
    if (status && !released) {
      return released.error();
    }
  }
  return status;
}

void AddTaskRun(CLI::App& parent, Context& context) {
  auto* command =
      parent.add_subcommand("run", "Run one task in an allocation of its own");
  auto one = std::make_shared<OneTask>();
  command
      ->add_option("--image", one->image,
                   "The image: dir:/PATH, oci:/PATH[:TAG], "
                   "oci-archive:/PATH[:TAG] or docker-archive:/PATH[:REF]")
      ->required();
  command
      ->add_option("--volume", one->volumes,
                   "Mount SRC at DST in the task, as SRC:DST or SRC:DST:ro")
      ->allow_extra_args(false);
  command
      ->add_option("--port", one->ports,
                   std::string("Map a port of the host, as ") + kPortForm)
      ->allow_extra_args(false);
  command->add_option("--env", one->environment, "Set a variable, NAME=VALUE")
      ->allow_extra_args(false);
  command->add_option("--user", one->user, "The user: NAME, UID, NAME:GROUP");
  command
      ->add_option("--network", one->network,
                   "The network: none, bridge or host (default bridge with "
                   "--port, else none)")
      ->check(CLI::IsMember({"none", "bridge", "host"}));
  command->add_option("--name", one->name,
                      "Name the allocation and the task (default task-HEX and "
                      "main)");
  auto* remove =
      command->add_flag("--rm", one->remove, "Release all when the task ends");
  command->add_flag("-i,--interactive", one->interactive,
                    "Give the command the stdin of mountctl");
  command->add_flag("-t,--tty", one->terminal,
                    "Give the command a terminal, as this one");
  command->add_flag("-d,--detach", one->detach, "Print the task's name and end")
      ->excludes(remove)
      ->excludes("--interactive")
      ->excludes("--tty");
  command->add_option("COMMAND", one->command,
                      "The command and its arguments, after --");
  command->footer(kTaskRunDetails);
  command->callback([&context, one] {
    one->command = WholeCommand(context, std::move(one->command));
    context.chosen = [&context, one] {
      int status = kExitOk;
      ReleaseOwed(context);
      const int done = WithClient(context, [&](Client& client) -> Result<void> {
        const Result<int> ran = RunOne(context, client, *one);
        status = ran ? *ran : FailToRun(ran.error());
        return Ok();
      });
      constexpr int kFailed = 125;
      return done == kExitOk ? status : done == kExitError ? kFailed : done;
    };
  });
}

}  // namespace

void AddTaskCommand(CLI::App& app, Context& context) {
  auto* task = app.add_subcommand("task", "Run one task, or measure tasks");
  task->group(kTasksGroup)->require_subcommand(1);
  AddTaskRun(*task, context);
  AddTaskStats(*task, context);
}

}  // namespace mountd::agent
