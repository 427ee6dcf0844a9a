// SPDX-License-Identifier: LGPL-2.1-or-later
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <thread>

#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/output.h"

namespace mountd::agent {
namespace {

const std::map<std::string, PluginType> kPluginTypes = {
    {"node", PluginType::kNode},
    {"controller", PluginType::kController},
    {"monolith", PluginType::kMonolith}};

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPollInterval{50};

int Register(const Context& context, const PluginSpec& spec) {
  return WithClient(context, [&](Client& client) -> Result<void> {
    MOUNTD_ASSIGN(const PluginRegistration made, client.RegisterPlugin(spec));
    if (context.json) {
      std::cout << Dump(ToJson(made)) << std::endl;
      return Ok();
    }
    std::cout << "plugin " << Printable(spec.plugin) << "\n  directory     "
              << Printable(made.host_path) << "\n  CSI_ENDPOINT  "
              << Printable(made.endpoint) << '\n';
    Table table({"HOST PATH", "TASK PATH", "READ-ONLY", "PROPAGATION"});
    for (const PluginMount& mount : made.mounts) {
      table.Add({mount.host_path, mount.task_path, YesNo(mount.read_only),
                 mount.propagation});
    }
    table.Print(std::cout, "  ");
    return Ok();
  });
}

void AddRegister(CLI::App& plugin, Context& context) {
  auto* command =
      plugin.add_subcommand("register",
                            "Make a plugin's directory, supervise the plugin "
                            "from then on, and print what its task needs");
  auto spec = std::make_shared<PluginSpec>();
  command->add_option("ID", spec->plugin, "The plugin's id")->required();
  command
      ->add_option(
          "--type", spec->type,
          "Offer these services: node, controller or monolith (default node)")
      ->transform(CLI::Transformer(kPluginTypes));
  command->add_option("--alloc", spec->allocation,
                      "Name the allocation of the plugin's task");
  command->add_option(
      "--mount-dir", spec->mount_dir,
      "Give the path where the plugin's task sees its directory");
  command->add_option("--stage-publish-base-dir", spec->stage_publish_base_dir,
                      "Give the path where it sees the staging and publish "
                      "paths (default: its directory)");
  command->add_flag("--bare-directories", spec->bare_directories,
                    "Accept that it publishes plain directories, not mounts");
  command->callback([&context, spec] {
    context.chosen = [&context, spec] { return Register(context, *spec); };
  });
}

// Polls until the plugin is healthy or the time is over, and prints the last
// answer in both cases.
Result<void> PrintStatus(Client& client, const Context& context,
                         const std::string& id, std::uint32_t wait_s) {
  const auto deadline = steady_clock::now() + std::chrono::seconds(wait_s);
  MOUNTD_ASSIGN(PluginStatus status, client.GetPlugin(id));
  while (status.state != "healthy" && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kPollInterval);
    MOUNTD_ASSIGN(status, client.GetPlugin(id));
  }
  if (context.json) {
    std::cout << Dump(ToJson(status)) << std::endl;
  } else {
    PrintPlugin(std::cout, status);
  }
  if (wait_s > 0 && status.state != "healthy") {
    return WithAway(Away::kPlugin,
                    MakeError(Code::kUnavailable, "plugin", id,
                              "is still " + status.state + " after " +
                                  std::to_string(wait_s) + " s"));
  }
  return Ok();
}

void AddPluginStatus(CLI::App& plugin, Context& context) {
  auto* command =
      plugin.add_subcommand("status", "Show a plugin and its state");
  auto id = std::make_shared<std::string>();
  auto wait_s = std::make_shared<std::uint32_t>(0);
  command->add_option("ID", *id, "The plugin's id")->required();
  command
      ->add_option("--wait", *wait_s,
                   "Wait at most so many seconds until it is healthy; exit "
                   "with status 1 if it is not (default 0)")
      ->check(CLI::Range(0U, 3'600U).description(""))
      ->type_name("SECONDS");
  command->callback([&context, id, wait_s] {
    context.chosen = [&context, id, wait_s] {
      return WithClient(context, [&](Client& client) {
        return PrintStatus(client, context, *id, *wait_s);
      });
    };
  });
}

}  // namespace

void AddPluginCommands(CLI::App& app, Context& context) {
  auto* plugin =
      app.add_subcommand("plugin", "Register, show and unregister CSI plugins");
  plugin->group("Plugins")->require_subcommand(1);
  AddRegister(*plugin, context);
  AddPluginStatus(*plugin, context);

  auto* unregister =
      plugin->add_subcommand("unregister", "Unregister a plugin");
  auto id = std::make_shared<std::string>();
  unregister->add_option("ID", *id, "The plugin's id")->required();
  auto which = std::make_shared<PluginSelection>();
  unregister
      ->add_option("--type", which->type,
                   "Unregister only instances of this type")
      ->transform(CLI::Transformer(kPluginTypes));
  unregister->add_option("--alloc", which->allocation,
                         "Unregister only instances of this allocation");
  unregister->add_flag("--force", which->force,
                       "Unregister it even if its volumes are staged");
  unregister->callback([&context, id, which] {
    context.chosen = [&context, id, which] {
      return WithClient(context, [&](Client& client) {
        return client.UnregisterPlugin(*id, *which);
      });
    };
  });

  auto* list = plugin->add_subcommand("list", "List all plugins");
  list->callback([&context] {
    context.chosen = [&context] {
      return WithClient(context, [&](Client& client) -> Result<void> {
        MOUNTD_ASSIGN(const auto plugins, client.ListPlugins());
        if (context.json) {
          std::cout << Dump(ToJson(plugins)) << std::endl;
        } else {
          PrintPlugins(std::cout, plugins);
        }
        return Ok();
      });
    };
  });
}

}  // namespace mountd::agent
