// SPDX-License-Identifier: LGPL-2.1-or-later
#include <unistd.h>

#include <atomic>
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
#include "agent/mountctl/commands/task_access.h"
#include "agent/mountctl/commands/task_stats.h"
#include "agent/mountctl/tasks/job_tasks.h"
#include "agent/mountctl/tasks/random_hex.h"

namespace mountd::agent {
namespace {

constexpr char kTaskRunDetails[] = R"(
Details:
  Without -d, mountctl prints what the task writes, and ends with the task's
  exit status, or with 128 and the signal. SIGINT and SIGTERM end the task.

  With -i or -t, /bin/sh and sleep of the image hold the task, and COMMAND runs
  by exec in it. The task ends with COMMAND.

  The allocation stays until `mountctl stop`, unless --rm is given. A SRC is the
  name of a host volume, filesystem:NAME, or the path of a directory beneath
  your alloc_roots.)";

std::atomic<bool> g_interrupted{false};

// Makes SIGINT and SIGTERM end the task while the object lives.
class Interruptible {
 public:
  Interruptible() {
    struct sigaction action {};
    action.sa_handler = [](int) { g_interrupted = true; };
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGINT, &action, &interrupt_);
    ::sigaction(SIGTERM, &action, &terminate_);
  }
  ~Interruptible() {
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGTERM, &terminate_, nullptr);
  }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  struct sigaction interrupt_ {};
  struct sigaction terminate_ {};
};

// Prints both streams until the task ends. Returns how it ended.
Result<driver::ExitResult> Attach(const Context& context,
                                  const RunningTask& task) {
  std::atomic<bool> ended{false};
  Result<driver::ExitResult> result = driver::ExitResult();
  std::thread waiting([&] {
    result = task.driver->WaitTask(task.id());
    ended = true;
  });
  const TaskRecord& record = task.found.record;
  std::thread errors([&] {
    LogChoice choice{.standard_error = true, .follow = true};
    IgnoreBecauseBestEffort(CopyLog(context, record, choice, STDERR_FILENO,
                                    [&] { return ended.load(); }));
  });
  const Result<void> copied =
      CopyLog(context, record, {.follow = true}, STDOUT_FILENO, [&] {
        if (g_interrupted.exchange(false)) {
          // WaitTask tells how the task ended.
          IgnoreBecauseBestEffort(task.driver->StopTask(
              task.id(), record.spec.kill_timeout, record.spec.kill_signal));
        }
        return ended.load();
      });
  errors.join();
  waiting.join();
  MOUNTD_TRY(copied);
  return result;
}

// Runs the foreground part, and records its end.
Result<int> RunHere(const Context& context, const OneTask& one,
                    const std::string& name) {
  // Another client is not needed, because a start needs mountd and no later
  // call does.
  MOUNTD_ASSIGN(FoundTask resolved, ResolveTask(context, name));
  MOUNTD_ASSIGN(auto driver, DriverOf(context, resolved.directory, nullptr));
  MOUNTD_TRY(driver->RecoverTask(resolved.record.handle));
  const RunningTask task{std::move(resolved), std::move(driver)};
  const FoundTask& found = task.found;
  if (one.ByExec()) {
    const auto status = ExecInTask(*task.driver, task.id(), one.command,
                                   one.interactive, one.terminal);
    MOUNTD_ASSIGN(const UniqueFd lock, found.directory.Lock());
    MOUNTD_TRY(JobTasks(*task.driver, found.directory).Stop(found.record));
    return status;
  }
  MOUNTD_ASSIGN(const driver::ExitResult result, Attach(context, task));
  MOUNTD_ASSIGN(const UniqueFd lock, found.directory.Lock());
  MOUNTD_TRY(
      JobTasks(*task.driver, found.directory)
          .RecordEnd(found.record.name(), task.id(), result, BootTime(0)));
  if (!result.error.empty()) {
    return MakeError(Code::kInternal, "wait", name, result.error);
  }
  return ExitStatusOf(result);
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
  const std::string name = job.allocation + "/" + job.tasks.front().config.name;
  const Interruptible interruptible;
  std::ostringstream steps;  // the task's output alone goes to stdout
  MOUNTD_TRY(RunJobWithTasks(context, client, job, {}, "", steps));
  if (one.detach) {
    std::cout << name << std::endl;
    return kExitOk;
  }
  Result<int> status = RunHere(context, one, name);
  if (one.remove) {
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
      const int done = WithClient(context, [&](Client& client) -> Result<void> {
        MOUNTD_ASSIGN(status, RunOne(context, client, *one));
        return Ok();
      });
      return done == kExitOk ? status : done;
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
