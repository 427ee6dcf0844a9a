// SPDX-License-Identifier: LGPL-2.1-or-later
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/mountctl/commands/command_line.h"
#include "agent/mountctl/commands/exec_task.h"
#include "agent/mountctl/commands/task_access.h"
#include "agent/mountctl/tasks/exec_terminal.h"

namespace mountd::agent {
namespace {

constexpr char kExecStatuses[] = R"(
Exit status:
  125  mountctl failed; stderr says why
  126  COMMAND cannot be executed
  127  COMMAND is not in the task's image
  else that of COMMAND, or 128 and the signal)";

}  // namespace

int ExitStatusOf(const driver::ExitResult& result) {
  constexpr int kSignalled = 128;  // as of a shell
  return result.signal != 0 ? kSignalled + result.signal : result.exit_code;
}

int FailToRun(const Error& error) {
  constexpr int kFailed = 125;
  constexpr int kNotExecutable = 126;
  constexpr int kNotFound = 127;
  const auto says = [&error](const char* text) {
    return error.detail.find(text) != std::string::npos;
  };
  (void)Fail(error);
  if (error.code != Code::kFailedPrecondition) {
    return kFailed;
  }
  // The runtime reports these errors only as text: "executable file `x` not
  // found in $PATH", and strerror(3) for a path.
  if (says("not found in $PATH") || says("No such file or directory") ||
      says("no such file or directory")) {
    return kNotFound;
  }
  return says("ermission denied") || says("Exec format error") ||
                 says("exec format error") || says("s a directory")
             ? kNotExecutable
             : kFailed;
}

Result<int> ExecInTask(driver::TaskDriver& driver, const std::string& id,
                       const std::vector<std::string>& command,
                       bool interactive, bool terminal) {
  driver::ExecOptions options;
  options.command = command;
  options.terminal = terminal;
  options.stdin_fd = interactive ? STDIN_FILENO : -1;
  options.stdout_fd = STDOUT_FILENO;
  options.stderr_fd = STDERR_FILENO;
  std::unique_ptr<ExecTerminal> raw;
  if (terminal) {
    MOUNTD_ASSIGN(
        raw, ExecTerminal::Begin(STDIN_FILENO,
                                 interactive ? ExecTerminal::Mode::kRaw
                                             : ExecTerminal::Mode::kSizes));
    options.sizes = &raw->sizes();
  }
  const auto result = driver::ExecTaskStreaming(driver, id, options);
  if (!result && result.error().sys_errno == EPIPE) {
    // The reader of the output has gone, so the status is that of a program
    // that SIGPIPE has ended.
    return ExitStatusOf({.signal = SIGPIPE});
  }
  if (!result) {
    return result.error();
  }
  if (!result->error.empty()) {
    return MakeError(Code::kInternal, "exec", id, result->error);
  }
  return ExitStatusOf(*result);
}

void AddExecCommand(CLI::App& app, Context& context) {
  struct Options {
    std::string task;
    std::vector<std::string> command;
    bool interactive = false;
    bool terminal = false;
  };
  auto* command = app.add_subcommand(
      "exec",
      "Run a command in a task; its exit status is the command's, or 128 and "
      "the signal");
  command->footer(kExecStatuses);
  command->group(kTasksGroup);
  auto options = std::make_shared<Options>();
  command->add_flag("-i,--interactive", options->interactive,
                    "Give the command the stdin of mountctl");
  command->add_flag("-t,--tty", options->terminal,
                    "Give the command a terminal, as this one");
  command->add_option("TASK", options->task, "The task: ALLOC/NAME or NAME")
      ->required();
  command
      ->add_option("COMMAND", options->command,
                   "The command and its arguments, after --")
      ->required();
  command->callback([&context, options] {
    options->command = WholeCommand(context, std::move(options->command));
    context.chosen = [&context, options] {
      const auto status = [&]() -> Result<int> {
        MOUNTD_ASSIGN(const RunningTask task,
                      ReachTask(context, options->task));
        return ExecInTask(*task.driver, task.id(), options->command,
                          options->interactive, options->terminal);
      }();
      return status ? *status : FailToRun(status.error());
    };
  });
}

}  // namespace mountd::agent
