// SPDX-License-Identifier: LGPL-2.1-or-later
#include <iostream>
#include <memory>

#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/output.h"
#include "mountd/base/unique_fd.h"

namespace mountd::agent {
namespace {

void AddHolders(CLI::App& app, Context& context) {
  struct Options {
    std::string allocation;
    std::string task;
    std::string name;
    bool node = false;
  };
  auto* command =
      app.add_subcommand("holders", "List the processes that use a mount");
  command->group(kTasksGroup);
  auto options = std::make_shared<Options>();
  command->add_option("ALLOC", options->allocation, "The allocation's id")
      ->required();
  command->add_option("TASK", options->task, "The task's name")->required();
  command->add_option("NAME", options->name, "The mount's name")->required();
  command->add_flag(
      "--node", options->node,
      "Search all processes, not only those in the allocation's cgroup");
  command->callback([&context, options] {
    context.chosen = [&context, options] {
      return WithClient(context, [&](Client& client) -> Result<void> {
        MOUNTD_ASSIGN(const Holders holders,
                      client.ListHolders(options->allocation, options->task,
                                         options->name, options->node));
        if (context.json) {
          std::cout << Dump(ToJson(holders)) << std::endl;
        } else {
          PrintHolders(std::cout, holders);
        }
        return Ok();
      });
    };
  });
}

void AddHandedOut(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand(
      "handed-out",
      "List the processes that hold mounts of an allocation as fds");
  command->group(kTasksGroup);
  auto allocation = std::make_shared<std::string>();
  command
      ->add_option("ALLOC", *allocation,
                   "The id of an allocation, which may be released")
      ->required();
  command->callback([&context, allocation] {
    context.chosen = [&context, allocation] {
      return WithClient(context, [&](Client& client) -> Result<void> {
        MOUNTD_ASSIGN(const HandedOutList list,
                      client.ListHandedOut(*allocation));
        if (context.json) {
          std::cout << Dump(ToJson(list)) << std::endl;
        } else {
          PrintHandedOut(std::cout, list);
        }
        return Ok();
      });
    };
  });
}

void AddVerify(CLI::App& app, Context& context) {
  struct Options {
    std::string allocation;
    std::string task;
    pid_t pid = 0;
  };
  auto* command = app.add_subcommand(
      "verify", "Check that a running task sees its mounts as they were made");
  command->group(kTasksGroup);
  auto options = std::make_shared<Options>();
  command->add_option("ALLOC", options->allocation, "The allocation's id")
      ->required();
  command->add_option("TASK", options->task, "The task's name")->required();
  command->add_option("PID", options->pid, "The pid of any process of the task")
      ->required();
  command->callback([&context, options] {
    context.chosen = [&context, options] {
      bool ok = false;
      const int status =
          WithClient(context, [&](Client& client) -> Result<void> {
            MOUNTD_ASSIGN(const UniqueFd pidfd, OpenPidfd(options->pid));
            MOUNTD_ASSIGN(const TaskReport report,
                          client.VerifyTask(options->allocation, options->task,
                                            pidfd.get()));
            if (context.json) {
              std::cout << Dump(ToJson(report)) << std::endl;
            } else {
              PrintTaskReport(std::cout, report);
            }
            ok = report.ok;
            return Ok();
          });
      return status == kExitOk && !ok ? kExitError : status;
    };
  });
}

}  // namespace

void AddTaskCommands(CLI::App& app, Context& context) {
  AddHolders(app, context);
  AddHandedOut(app, context);
  AddVerify(app, context);
}

}  // namespace mountd::agent
