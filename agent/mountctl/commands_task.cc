// SPDX-License-Identifier: LGPL-2.1-or-later
#include <iostream>
#include <memory>

#include "agent/mountctl/commands.h"
#include "agent/mountctl/json.h"
#include "agent/mountctl/output.h"
#include "mountd/base/unique_fd.h"

namespace mountd::agent {
namespace {

constexpr char kTasksGroup[] = "Running tasks";

void AddHolders(CLI::App& app, Context& context) {
  struct Options {
    std::string allocation;
    std::string task;
    std::string name;
    bool node = false;
  };
  auto* command = app.add_subcommand("holders", "Which processes use a mount");
  command->group(kTasksGroup);
  auto options = std::make_shared<Options>();
  command->add_option("ALLOC", options->allocation, "The allocation")
      ->required();
  command->add_option("TASK", options->task, "Its task")->required();
  command->add_option("NAME", options->name, "The mount's name")->required();
  command->add_flag("--node", options->node,
                    "Ask all processes, not only the allocation's cgroup");
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
      "handed-out", "Which processes have mounts of an allocation as fds");
  command->group(kTasksGroup);
  auto allocation = std::make_shared<std::string>();
  command
      ->add_option("ALLOC", *allocation,
                   "The allocation, or one that was released")
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
      "verify", "Whether a running task has its mounts as they were made");
  command->group(kTasksGroup);
  auto options = std::make_shared<Options>();
  command->add_option("ALLOC", options->allocation, "The allocation")
      ->required();
  command->add_option("TASK", options->task, "Its task")->required();
  command->add_option("PID", options->pid, "Any process of it")->required();
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
