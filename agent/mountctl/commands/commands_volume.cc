// SPDX-License-Identifier: LGPL-2.1-or-later
#include <iostream>
#include <memory>

#include "agent/mountctl/commands/arguments.h"
#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/output.h"
#include "agent/mountctl/output/volume_report.h"

// Commands on volumes of this node.
namespace mountd::agent {
namespace {

struct VolumeArguments {
  std::string allocation;
  std::string alias;
  std::string plugin;
  std::string volume;
  VolumeExpansion expansion;
};

using Arguments = std::shared_ptr<VolumeArguments>;

void AddAlias(CLI::App& command, VolumeArguments& arguments) {
  command.add_option("ALLOC", arguments.allocation, "The allocation's id")
      ->required();
  command
      .add_option("ALIAS", arguments.alias,
                  "The volume's alias in the allocation")
      ->required();
}

Result<void> ShowList(Client& client, bool json, const std::string& plugin) {
  if (!plugin.empty()) {
    MOUNTD_ASSIGN(const auto volumes, AllPluginVolumes(client, plugin));
    if (json) {
      std::cout << Dump(ToJson(volumes)) << std::endl;
    } else {
      PrintPluginVolumes(std::cout, volumes);
    }
    return Ok();
  }
  MOUNTD_ASSIGN(const auto volumes, client.ListVolumes());
  if (json) {
    std::cout << Dump(ToJson(volumes)) << std::endl;
  } else {
    PrintVolumes(std::cout, volumes);
  }
  return Ok();
}

void AddList(CLI::App& volume, Context& context) {
  auto* command =
      volume.add_subcommand("list", "List the staged and published volumes");
  auto plugin = std::make_shared<std::string>();
  command->add_option("--plugin", *plugin,
                      "List all volumes of this plugin, on any node, instead");
  command->callback([&context, plugin] {
    context.chosen = [&context, plugin] {
      return WithClient(context, [&](Client& client) {
        return ShowList(client, context.json, *plugin);
      });
    };
  });
}

Result<void> ShowStatus(Client& client, bool json,
                        const VolumeArguments& arguments) {
  MOUNTD_ASSIGN(
      const VolumeReport report,
      arguments.plugin.empty()
          ? ReportOfAlias(client, arguments.allocation, arguments.alias)
          : ReportOfVolume(client, arguments.plugin, arguments.volume));
  if (json) {
    std::cout << Dump(ToJson(report)) << std::endl;
  } else {
    PrintVolumeReport(std::cout, report);
  }
  return Ok();
}

void AddVolumeStatus(CLI::App& volume, Context& context) {
  auto* command = volume.add_subcommand(
      "status",
      "Show a volume, by ALLOC and ALIAS or by --plugin and --volume");
  auto arguments = std::make_shared<VolumeArguments>();
  auto* allocation = command->add_option("ALLOC", arguments->allocation,
                                         "The allocation's id");
  auto* alias = command->add_option("ALIAS", arguments->alias,
                                    "The volume's alias in the allocation");
  auto* plugin = command->add_option("--plugin", arguments->plugin,
                                     "Name the volume's plugin");
  auto* id = command->add_option("--volume", arguments->volume,
                                 "Give the plugin's id of the volume");
  allocation->needs(alias);
  plugin->needs(id)->excludes(allocation);
  id->needs(plugin);
  command->callback([&context, arguments] {
    if (arguments->alias.empty() && arguments->volume.empty()) {
      throw CLI::RequiredError("ALLOC and ALIAS");
    }
    context.chosen = [&context, arguments] {
      return WithClient(context, [&](Client& client) {
        return ShowStatus(client, context.json, *arguments);
      });
    };
  });
}

void AddStats(CLI::App& volume, Context& context) {
  auto* command = volume.add_subcommand(
      "stats", "Show how much of a volume is used and free");
  auto arguments = std::make_shared<VolumeArguments>();
  AddAlias(*command, *arguments);
  command->callback([&context, arguments] {
    context.chosen = [&context, arguments] {
      return WithClient(context, [&](Client& client) -> Result<void> {
        MOUNTD_ASSIGN(
            const VolumeStats stats,
            client.GetVolumeStats(arguments->allocation, arguments->alias));
        if (context.json) {
          std::cout << Dump(ToJson(stats)) << std::endl;
        } else {
          PrintVolumeStats(std::cout, stats);
        }
        return Ok();
      });
    };
  });
}

Result<void> Expand(Client& client, bool json,
                    const VolumeArguments& arguments) {
  MOUNTD_ASSIGN(const std::int64_t bytes,
                client.ExpandVolume(arguments.allocation, arguments.alias,
                                    arguments.expansion));
  if (json) {
    std::cout << Dump({{"bytes", bytes}}) << std::endl;
  } else if (bytes > 0) {
    std::cout << "now " << Size(bytes) << std::endl;
  } else {
    std::cout << "expanded; its plugin does not report the new size"
              << std::endl;
  }
  return Ok();
}

void AddExpand(CLI::App& volume, Context& context) {
  auto* command = volume.add_subcommand("expand", "Grow a published volume");
  auto arguments = std::make_shared<VolumeArguments>();
  AddAlias(*command, *arguments);
  VolumeExpansion& expansion = arguments->expansion;
  AddSize(*command, "BYTES", expansion.required_bytes,
          "The new size in bytes, as 10GiB")
      ->required();
  AddSize(*command, "--limit", expansion.limit_bytes,
          "Limit the new size to so many bytes, as 12GiB (default: no limit)");
  AddSecretsFile(*command, expansion.secrets);
  command->callback([&context, arguments] {
    context.chosen = [&context, arguments] {
      return WithClient(context, [&](Client& client) {
        return Expand(client, context.json, *arguments);
      });
    };
  });
}

}  // namespace

void AddVolumeCommands(CLI::App& app, Context& context) {
  auto* volume = app.add_subcommand(
      "volume", "Show, create, expand and delete volumes of CSI plugins");
  volume->group("Networks, volumes and mounts")->require_subcommand(1);
  AddList(*volume, context);
  AddVolumeStatus(*volume, context);
  AddStats(*volume, context);
  AddExpand(*volume, context);
  AddVolumeControlCommands(*volume, context);
  AddSnapshotCommands(*volume, context);
}

}  // namespace mountd::agent
