// SPDX-License-Identifier: LGPL-2.1-or-later
#include <iostream>
#include <iterator>
#include <memory>

#include "agent/mountctl/commands/arguments.h"
#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/output.h"
#include "agent/mountctl/output/pages.h"
#include "agent/mountctl/output/snapshot_message.h"

namespace mountd::agent {
namespace {

struct SnapshotArguments {
  std::string plugin;
  std::string snapshot;
  SnapshotCreation creation;
  SnapshotQuery query;
  std::map<std::string, std::string> secrets;
};

using Action = Result<void> (*)(Client&, bool json, const SnapshotArguments&);

Result<void> Create(Client& client, bool json,
                    const SnapshotArguments& arguments) {
  MOUNTD_ASSIGN(const std::string response,
                client.CallController({arguments.plugin, "CreateSnapshot",
                                       EncodeCreateSnapshot(arguments.creation),
                                       arguments.secrets}));
  MOUNTD_ASSIGN(const Snapshot snapshot, DecodeCreateSnapshot(response));
  if (json) {
    std::cout << Dump(ToJson(snapshot)) << std::endl;
  } else {
    PrintSnapshots(std::cout, {snapshot});
  }
  return Ok();
}

Result<void> Delete(Client& client, bool /*json*/,
                    const SnapshotArguments& arguments) {
  MOUNTD_TRY(client.CallController({arguments.plugin, "DeleteSnapshot",
                                    EncodeDeleteSnapshot(arguments.snapshot),
                                    arguments.secrets}));
  return Ok();
}

Result<void> List(Client& client, bool json,
                  const SnapshotArguments& arguments) {
  std::vector<Snapshot> all;
  MOUNTD_TRY(EachPage([&](const std::string& token) -> Result<std::string> {
    SnapshotQuery query = arguments.query;
    query.starting_token = token;
    MOUNTD_ASSIGN(
        const std::string response,
        client.CallController({arguments.plugin, "ListSnapshots",
                               EncodeListSnapshots(query), arguments.secrets}));
    MOUNTD_ASSIGN(SnapshotPage page, DecodeListSnapshots(response));
    std::move(page.snapshots.begin(), page.snapshots.end(),
              std::back_inserter(all));
    return std::move(page.next_token);
  }));
  if (json) {
    std::cout << Dump(ToJson(all)) << std::endl;
  } else {
    PrintSnapshots(std::cout, all);
  }
  return Ok();
}

// Adds the command of that name, with the arguments of all snapshot commands.
CLI::App* AddAction(CLI::App& snapshot, Context& context, const char* name,
                    const char* help,
                    const std::shared_ptr<SnapshotArguments>& arguments,
                    Action action) {
  auto* command = snapshot.add_subcommand(name, help);
  command->add_option("PLUGIN", arguments->plugin, "The plugin's id")
      ->required();
  AddSecretsFile(*command, arguments->secrets);
  command->callback([&context, arguments, action] {
    context.chosen = [&context, arguments, action] {
      return WithClient(context, [&](Client& client) {
        return action(client, context.json, *arguments);
      });
    };
  });
  return command;
}

}  // namespace

void AddSnapshotCommands(CLI::App& volume, Context& context) {
  auto* snapshot = volume.add_subcommand(
      "snapshot", "Make, delete and list snapshots of volumes");
  snapshot->require_subcommand(1);

  auto created = std::make_shared<SnapshotArguments>();
  auto* create =
      AddAction(*snapshot, context, "create",
                "Make a snapshot, or find it by its name", created, &Create);
  create
      ->add_option("VOLUME", created->creation.source_volume,
                   "The plugin's id of the volume")
      ->required();
  create
      ->add_option("NAME", created->creation.name,
                   "The name that you give the snapshot")
      ->required();
  AddPairs(*create, "--parameter", created->creation.parameters,
           "Pass a parameter to the plugin, as KEY=VALUE");

  auto deleted = std::make_shared<SnapshotArguments>();
  AddAction(*snapshot, context, "delete", "Delete a snapshot", deleted, &Delete)
      ->add_option("SNAPSHOT", deleted->snapshot,
                   "The plugin's id of the snapshot")
      ->required();

  auto listed = std::make_shared<SnapshotArguments>();
  auto* list = AddAction(*snapshot, context, "list",
                         "List the snapshots of a plugin", listed, &List);
  list->add_option("--volume", listed->query.source_volume,
                   "List only those of this volume");
  list->add_option("--snapshot", listed->query.snapshot, "List only this one");
}

}  // namespace mountd::agent
