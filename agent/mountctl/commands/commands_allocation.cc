// SPDX-License-Identifier: LGPL-2.1-or-later
#include <iostream>
#include <map>
#include <memory>

#include "agent/fields/mount_fields.h"
#include "agent/mountctl/commands/arguments.h"
#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/job/directory.h"
#include "agent/mountctl/job/job.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/output.h"
#include "mountd/base/number.h"

namespace mountd::agent {
namespace {

struct MountArguments {
  std::string allocation;
  std::string source;
  std::string propagation = "private";
  std::string directory;
  pid_t container = 0;
  bool replace = false;
  BindMountSpec spec;
  TmpfsOptions tmpfs;
};

void AddTmpfs(CLI::App& command, MountArguments& arguments) {
  TmpfsOptions& tmpfs = arguments.tmpfs;
  AddSize(command, "--size", tmpfs.size,
          "Limit a tmpfs to so many bytes, as 1048576 or 1M");
  command.add_option("--inodes", tmpfs.inodes,
                     "Limit a tmpfs to so many files");
  command
      .add_option_function<std::string>(
          "--mode",
          [&tmpfs](const std::string& text) {
            tmpfs.mode = ParseNumber<std::uint32_t>(text, 8);
          },
          "Set the mode of a tmpfs's root, octal (default 0700)")
      ->check([](const std::string& text) -> std::string {
        return ParseNumber<std::uint32_t>(text, 8) ? "" : "must be octal";
      });
  command.add_option("--uid", tmpfs.uid,
                     "Set the uid of a tmpfs's root (default: yours)");
  command.add_option("--gid", tmpfs.gid,
                     "Set the gid of a tmpfs's root (default: yours)");
  command.add_flag("--noswap", tmpfs.noswap, "Never swap a tmpfs out");
}

CLI::Option* AddExtents(CLI::App& command, const char* name,
                        std::vector<IdExtent>& extents, const char* help) {
  return command
      .add_option_function<std::vector<std::string>>(
          name,
          [&extents](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) {
              extents.push_back(*ParseExtent(text));
            }
          },
          help)
      ->check([](const std::string& text) -> std::string {
        return ParseExtent(text) ? "" : "must be ON_DISK:SHOWN:COUNT";
      });
}

void AddIdMap(CLI::App& command, MountArguments& arguments) {
  BindMountSpec& spec = arguments.spec;
  CLI::Option* both =
      AddExtents(command, "--idmap", spec.id_map,
                 "Show COUNT ids from ON_DISK as those from SHOWN, as "
                 "ON_DISK:SHOWN:COUNT");
  CLI::Option* users =
      AddExtents(command, "--uidmap", spec.uid_map,
                 "As --idmap, for users alone; --gidmap must be given, too");
  CLI::Option* groups =
      AddExtents(command, "--gidmap", spec.gid_map,
                 "As --idmap, for groups alone; --uidmap must be given, too");
  users->needs(groups)->excludes(both);
  groups->needs(users)->excludes(both);
}

void AddMountNames(CLI::App& command, MountArguments& arguments) {
  command.add_option("ALLOC", arguments.allocation, "The allocation's id")
      ->required();
  command.add_option("TASK", arguments.spec.task, "The task's name")
      ->required();
  command.add_option("NAME", arguments.spec.name, "The mount's name")
      ->required();
}

Result<ReplacedMount> BindOrReplace(Client& client,
                                    const MountArguments& arguments) {
  if (arguments.replace) {
    return client.ReplaceMount(arguments.allocation, arguments.spec);
  }
  MOUNTD_ASSIGN(MountConfig config,
                client.BindMount(arguments.allocation, arguments.spec));
  return ReplacedMount{.config = std::move(config)};
}

int Mount(const Context& context, MountArguments arguments) {
  const Result<UniqueFd> directory =
      OpenDirectory(arguments.directory, &arguments.spec.directory);
  const std::string shown = arguments.spec.source;
  const Result<UniqueFd> source = OpenSource(arguments.spec);
  if (!directory || !source) {
    return Fail(directory ? source.error() : directory.error());
  }
  UniqueFd container;
  if (arguments.container != 0) {
    Result<UniqueFd> opened = OpenPidfd(arguments.container);
    if (!opened) {
      return Fail(opened.error());
    }
    container = *std::move(opened);
    arguments.spec.container = container.get();
  }
  return WithClient(context, [&](Client& client) -> Result<void> {
    MOUNTD_ASSIGN(const ReplacedMount mount, BindOrReplace(client, arguments));
    if (context.json) {
      Json json = ToJson(mount.config);
      if (mount.old_holders) {
        json["old_holders"] = ToJson(*mount.old_holders);
      }
      std::cout << Dump(json) << std::endl;
    } else {
      const BindMountSpec& spec = arguments.spec;
      PrintMounts(std::cout, {{spec.task, spec.name,
                               std::string(SourceTypeName(spec.source_type)),
                               shown, "mounted", mount.config}});
      if (mount.old_holders && !mount.old_holders->holders.empty()) {
        std::cout << "processes that still use the old mount:\n";
        PrintHolders(std::cout, *mount.old_holders);
      }
    }
    return Ok();
  });
}

void AddMount(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand(
      "mount", "Mount a volume, host volume, file system or tmpfs for a task");
  command->group(kPartsGroup);
  auto arguments = std::make_shared<MountArguments>();
  AddMountNames(*command, *arguments);
  command
      ->add_option("--source", arguments->source,
                   "Mount this: host:NAME, volume:ALIAS, filesystem:NAME, "
                   "directory:PATH or tmpfs")
      ->required()
      ->check([arguments](const std::string& text) -> std::string {
        return ParseMountSource(text, arguments->spec)
                   ? ""
                   : "must be host:NAME, volume:ALIAS, filesystem:NAME, "
                     "directory:PATH or tmpfs";
      });
  command
      ->add_option("--propagation", arguments->propagation,
                   "Choose how later mounts propagate (default private)")
      ->check(CLI::IsMember({"private", "host-to-task", "bidirectional"}));
  command->add_flag("--read-only", arguments->spec.read_only,
                    "Mount it read-only");
  for (const MountFlag& flag : kMountFlags) {
    command->add_flag("--" + std::string(flag.key),
                      arguments->spec.*flag.member, flag.help);
  }
  AddIdMap(*command, *arguments);
  command->add_flag("--replace", arguments->replace,
                    "Replace the mount of this name");
  command->add_option(
      "--directory", arguments->directory,
      "Mount it on this directory, which you own, instead of the inbox");
  command->add_option(
      "--container", arguments->container,
      "Mount it at --task-path in the container of the process PID");
  command->add_option("--task-path", arguments->spec.task_path,
                      "Give the path where the task sees it");
  AddTmpfs(*command, *arguments);
  command->callback([&context, arguments] {
    context.chosen = [&context, arguments] {
      if (arguments->spec.source_type == SourceType::kTmpfs) {
        arguments->spec.tmpfs = arguments->tmpfs;
      }
      arguments->spec.propagation =
          ParsePropagation(arguments->propagation).value();
      return Mount(context, *arguments);
    };
  });
}

void AddUnmount(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("unmount", "Unmount a mount of a task");
  command->group(kPartsGroup);
  auto arguments = std::make_shared<MountArguments>();
  auto mode = std::make_shared<UnmountMode>(UnmountMode::kPlain);
  AddMountNames(*command, *arguments);
  const std::map<std::string, UnmountMode> modes = {
      {"plain", UnmountMode::kPlain},
      {"detach", UnmountMode::kDetach},
      {"force", UnmountMode::kForce},
      {"abort", UnmountMode::kAbort}};
  command
      ->add_option("--mode", *mode,
                   "Choose what happens if it is in use: plain (fail with "
                   "Busy, the default), detach, force or abort")
      ->transform(CLI::CheckedTransformer(modes))
      ->option_text("MODE");
  const std::shared_ptr<OnTasks> on_tasks = AddOnTasks(*command);
  command->callback([&context, arguments, mode, on_tasks] {
    context.chosen = [&context, arguments, mode, on_tasks] {
      return WithClient(context, [&](Client& client) {
        return client.Unmount(arguments->allocation, arguments->spec.task,
                              arguments->spec.name, *mode, *on_tasks);
      });
    };
  });
}

void AddRepair(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand(
      "repair", "Replace a mount by a new one of its source");
  command->group(kPartsGroup);
  auto arguments = std::make_shared<MountArguments>();
  AddMountNames(*command, *arguments);
  command->callback([&context, arguments] {
    context.chosen = [&context, arguments] {
      return WithClient(context, [&](Client& client) -> Result<void> {
        MOUNTD_ASSIGN(
            const RepairedMount repaired,
            client.RepairMount(arguments->allocation, arguments->spec.task,
                               arguments->spec.name));
        if (context.json) {
          std::cout << Dump(ToJson(repaired)) << std::endl;
        } else {
          std::cout << (repaired.reaches_task
                            ? std::string("repaired, in running tasks too")
                            : "repaired; not in running tasks: " +
                                  repaired.reason)
                    << std::endl;
        }
        return Ok();
      });
    };
  });
}

int PrepareInbox(const Context& context, const MountArguments& arguments) {
  return WithClient(context, [&](Client& client) -> Result<void> {
    MOUNTD_ASSIGN(
        const InboxConfig inbox,
        client.PrepareInbox(arguments.allocation, arguments.spec.task));
    if (context.json) {
      std::cout << Dump(ToJson(inbox)) << std::endl;
    } else {
      std::cout << inbox.host_path << std::endl;
    }
    return Ok();
  });
}

void AddInbox(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand(
      "inbox", "Make a task's inbox, the directory where it sees its mounts");
  command->group(kPartsGroup);
  auto arguments = std::make_shared<MountArguments>();
  auto remove = std::make_shared<bool>(false);
  command->add_option("ALLOC", arguments->allocation, "The allocation's id")
      ->required();
  command->add_option("TASK", arguments->spec.task, "The task's name")
      ->required();
  command->add_flag("--remove", *remove, "Remove the inbox instead");
  command->callback([&context, arguments, remove] {
    context.chosen = [&context, arguments, remove] {
      if (!*remove) {
        return PrepareInbox(context, *arguments);
      }
      return WithClient(context, [&](Client& client) {
        return client.RemoveInbox(arguments->allocation, arguments->spec.task);
      });
    };
  });
}

}  // namespace

void AddAllocationCommands(CLI::App& app, Context& context) {
  AddVolumeCommands(app, context);
  AddMount(app, context);
  AddUnmount(app, context);
  AddRepair(app, context);
  AddTreeCommand(app, context);
  AddInbox(app, context);
}

}  // namespace mountd::agent
