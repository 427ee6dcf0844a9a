// SPDX-License-Identifier: LGPL-2.1-or-later
#include <iostream>
#include <memory>

#include "agent/mountctl/commands/arguments.h"
#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/output.h"

// Commands on volumes of plugins' controllers.
namespace mountd::agent {
namespace {

// Adds the options of the contract's modes; the daemon checks their values.
void AddUsage(CLI::App& command, VolumeUsage& usage) {
  command.add_option(
      "--access-mode", usage.access_mode,
      "Say how the volume is accessed (default single-node-writer)");
  command.add_option(
      "--attachment-mode", usage.attachment_mode,
      "Attach it as file-system or block-device (default file-system)");
  command.add_option("--fs-type", usage.fs_type,
                     "Use this file system (default: the plugin's choice)");
}

void AddContent(CLI::App& command, VolumeCreation& creation) {
  auto* snapshot =
      command.add_option("--from-snapshot", creation.source_snapshot,
                         "Copy the content of this snapshot");
  command
      .add_option("--from-volume", creation.source_volume,
                  "Copy the content of this volume")
      ->excludes(snapshot);
}

Result<void> Create(Client& client, bool json, const VolumeCreation& creation) {
  MOUNTD_ASSIGN(const PluginVolume volume, client.CreateVolume(creation));
  if (json) {
    std::cout << Dump(ToJson(volume)) << std::endl;
  } else {
    std::cout << "volume " << Printable(volume.volume) << '\n';
    PrintKnownVolume(std::cout, volume);
  }
  return Ok();
}

void AddCreate(CLI::App& volume, Context& context) {
  auto* command = volume.add_subcommand(
      "create", "Create a volume with a plugin, or find it by its name");
  auto creation = std::make_shared<VolumeCreation>();
  command->add_option("PLUGIN", creation->plugin, "The plugin's id")
      ->required();
  command
      ->add_option("NAME", creation->name, "The name that you give the volume")
      ->required();
  AddSize(*command, "--capacity", creation->required_bytes,
          "Require at least so many bytes, as 10GiB (default: the plugin's "
          "choice)");
  AddSize(*command, "--limit", creation->limit_bytes,
          "Limit the size to so many bytes, as 12GiB (default: no limit)");
  AddPairs(*command, "--parameter", creation->parameters,
           "Pass a parameter to the plugin, as KEY=VALUE");
  AddPairs(*command, "--mutable-parameter", creation->mutable_parameters,
           "Pass a parameter that can change later, as KEY=VALUE");
  AddUsage(*command, creation->usages.front());
  AddContent(*command, *creation);
  AddSecretsFile(*command, creation->secrets);
  command->callback([&context, creation] {
    context.chosen = [&context, creation] {
      return WithClient(context, [&](Client& client) {
        return Create(client, context.json, *creation);
      });
    };
  });
}

void AddDelete(CLI::App& volume, Context& context) {
  struct Options {
    std::string plugin;
    std::string volume;
    std::map<std::string, std::string> secrets;
  };
  auto* command = volume.add_subcommand(
      "delete", "Delete a volume and its content with a plugin");
  auto options = std::make_shared<Options>();
  command->add_option("PLUGIN", options->plugin, "The plugin's id")->required();
  command
      ->add_option("VOLUME", options->volume, "The plugin's id of the volume")
      ->required();
  AddSecretsFile(*command, options->secrets);
  command->callback([&context, options] {
    context.chosen = [&context, options] {
      return WithClient(context, [&](Client& client) {
        return client.DeleteVolume(options->plugin, options->volume,
                                   options->secrets);
      });
    };
  });
}

}  // namespace

void AddVolumeControlCommands(CLI::App& volume, Context& context) {
  AddCreate(volume, context);
  AddDelete(volume, context);
}

}  // namespace mountd::agent
