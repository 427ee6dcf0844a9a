// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>

#include <cerrno>
#include <iostream>
#include <memory>

#include "agent/mountctl/commands/arguments.h"
#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/commands/release_jobs.h"
#include "agent/mountctl/commands/task_access.h"
#include "agent/mountctl/job/job.h"
#include "agent/mountctl/job/run.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/output.h"
#include "mountd/base/unique_fd.h"

namespace mountd::agent {
namespace {

Result<void> PrintOverview(Client& client, bool json) {
  MOUNTD_ASSIGN(const std::string version, client.Version());
  MOUNTD_ASSIGN(const auto plugins, client.ListPlugins());
  MOUNTD_ASSIGN(const auto allocations, client.ListAllocations());
  MOUNTD_ASSIGN(const auto volumes, client.ListVolumes());
  MOUNTD_ASSIGN(const auto owed, client.ListOwed());
  if (json) {
    std::cout << Dump({{"version", version},
                       {"plugins", ToJson(plugins)},
                       {"allocations", ToJson(allocations)},
                       {"volumes", ToJson(volumes)},
                       {"owed", ToJson(owed)}})
              << std::endl;
    return Ok();
  }
  std::cout << "mountd " << version << "\nplugins      " << plugins.size()
            << "\nallocations  " << allocations.size() << "\nvolumes      "
            << volumes.size() << "\nowed         " << owed.size() << '\n';
  const auto section = [](std::size_t size, const char* name) {
    if (size > 0) {
      std::cout << '\n' << name << '\n';
    }
    return size > 0;
  };
  if (section(plugins.size(), "plugins")) {
    PrintPlugins(std::cout, plugins);
  }
  if (section(allocations.size(), "allocations")) {
    PrintAllocations(std::cout, allocations);
  }
  if (section(volumes.size(), "volumes")) {
    PrintVolumes(std::cout, volumes);
  }
  if (section(owed.size(), "pending tear-downs")) {
    PrintOwed(std::cout, owed);
  }
  return Ok();
}

void AddRun(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("run",
                                     "Set up an allocation from a file: its "
                                     "directory, network, volumes, mounts and "
                                     "tasks")
                      ->group(kJobsGroup);
  auto file = std::make_shared<std::string>();
  auto keep = std::make_shared<bool>(false);
  command
      ->add_option("FILE", *file,
                   "The file of the job, as agent/examples/web.toml")
      ->required();
  command->add_flag("--keep", *keep,
                    "Keep the parts that exist if a later step fails");
  auto cgroup = std::make_shared<std::string>();
  command->add_option("--cgroup", *cgroup,
                      "Name the directory of the tasks' cgroup (version 2)");
  command->callback([&context, file, keep, cgroup] {
    context.chosen = [&context, file, keep, cgroup] {
      Result<Job> job = ReadJob(*file);
      if (!job) {
        const Error& error = job.error();
        std::cerr << "mountctl: "
                  << (error.sys_errno == 0 ? error.detail : error.Message())
                  << std::endl;
        return kExitUsage;
      }
      // O_PATH needs no permission on the directory itself (open(2)).
      const UniqueFd directory(
          cgroup->empty()
              ? -1
              : ::open(cgroup->c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      if (!cgroup->empty() && !directory.valid()) {
        return Fail(ErrnoError(errno, "open", *cgroup));
      }
      job->options.cgroup = directory.get();
      return WithClient(context, [&](Client& client) {
        return RunJobWithTasks(context, client, *job,
                               {.json = context.json, .keep = *keep}, *cgroup,
                               std::cout);
      });
    };
  });
}

Result<void> PrintReleased(Result<Receipt> receipt, bool json) {
  if (!receipt) {
    return receipt.error();
  }
  if (json) {
    std::cout << Dump(ToJson(*receipt)) << std::endl;
  } else {
    PrintReceipt(std::cout, *receipt);
  }
  return Ok();
}

// Ends the tasks if mountd is away, and returns the error of the connection.
// Ok, and nothing has changed, if mountd answers or mountctl runs no tasks
// there.
Result<void> EndTasksWithoutMountd(const Context& context,
                                   const std::string& allocation) {
  const auto state = StatePath(context.state);
  if (!state || !JobDirectory::Open(*state, allocation)) {
    return Ok();  // mountctl runs no tasks there
  }
  const Result<Client> client = Client::Connect(context.options);
  if (client || client.error().code != Code::kUnavailable) {
    return Ok();  // the command goes on, and tells such an error
  }
  MOUNTD_ASSIGN(const bool ended, EndTasks(context, allocation));
  if (!ended) {
    return Ok();
  }
  Error error = client.error();
  error.detail =
      "the tasks have ended, and the release needs mountd; call "
      "again: " +
      error.detail;
  return error;
}

// Adds `stop ALLOC` or `alloc release ALLOC`, which are the same, or `receipt`,
// which prints the receipt again.
void AddReceiptCommand(CLI::App& parent, Context& context, const char* name,
                       const char* help, bool release) {
  auto* command = parent.add_subcommand(name, help);
  auto id = std::make_shared<std::string>();
  command->add_option("ALLOC", *id, "The allocation's id")->required();
  const auto on_tasks =
      release ? AddOnTasks(*command) : std::make_shared<OnTasks>();
  const auto only_if =
      release ? AddOnlyIf(*command) : std::make_shared<OnlyIf>();
  command->callback([&context, id, release, on_tasks, only_if] {
    context.chosen = [&context, id, release, on_tasks, only_if] {
      if (*only_if != OnlyIf::kAny) {
        return WithClient(context, [&](Client& client) {
          return PrintReleased(
              ReleaseOnlyIf(context, client, *id, *on_tasks, *only_if),
              context.json);
        });
      }
      if (release) {
        const auto away = EndTasksWithoutMountd(context, *id);
        if (!away) {
          return Fail(away.error());
        }
      }
      const int done = WithClient(context, [&](Client& client) {
        return PrintReleased(
            release ? StopAllocation(context, client, *id, *on_tasks)
                    : client.GetReceipt(*id),
            context.json);
      });
      if (release && done == kExitOk) {
        ReleaseOwed(context);
      }
      return done;
    };
  });
  command->group(kJobsGroup);
}

void AddStatusCommand(CLI::App& parent, Context& context, bool required) {
  auto* command = parent.add_subcommand(
      "status", required ? "Show an allocation: its network, volumes and mounts"
                         : "Show the node at a glance, or one allocation");
  auto id = std::make_shared<std::string>();
  command->add_option("ALLOC", *id, "The allocation's id")->required(required);
  command->callback([&context, id] {
    context.chosen = [&context, id] {
      return WithClient(context, [&](Client& client) -> Result<void> {
        if (id->empty()) {
          return PrintOverview(client, context.json);
        }
        MOUNTD_ASSIGN(const AllocationStatus status, client.GetAllocation(*id));
        if (context.json) {
          std::cout << Dump(ToJson(status)) << std::endl;
        } else {
          PrintAllocation(std::cout, status);
        }
        return Ok();
      });
    };
  });
  command->group(kJobsGroup);
}

}  // namespace

void AddJobCommands(CLI::App& app, Context& context) {
  AddRun(app, context);
  AddReceiptCommand(
      app, context, "stop",
      "End the tasks of an allocation, release the allocation with all its "
      "parts, and print its receipt",
      true);
  AddStatusCommand(app, context, false);
  AddReceiptCommand(app, context, "receipt",
                    "Print the receipt of an allocation that was released",
                    false);

  auto* alloc =
      app.add_subcommand("alloc", "List, show and release allocations");
  alloc->group(kJobsGroup)->require_subcommand(1);
  auto* list = alloc->add_subcommand(
      "list", "List your allocations, or everybody's for an administrator");
  list->callback([&context] {
    context.chosen = [&context] {
      return WithClient(context, [&](Client& client) -> Result<void> {
        MOUNTD_ASSIGN(const auto entries, client.ListAllocations());
        if (context.json) {
          std::cout << Dump(ToJson(entries)) << std::endl;
        } else {
          PrintAllocations(std::cout, entries);
        }
        return Ok();
      });
    };
  });
  AddStatusCommand(*alloc, context, true);
  AddReceiptCommand(
      *alloc, context, "release",
      "Release an allocation with all its parts, and print its receipt", true);
}

}  // namespace mountd::agent
