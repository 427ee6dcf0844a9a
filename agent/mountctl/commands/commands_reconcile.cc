// SPDX-License-Identifier: LGPL-2.1-or-later
#include <iostream>
#include <memory>

#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/output.h"

namespace mountd::agent {

void AddReconcileCommand(CLI::App& app, Context& context) {
  auto* command =
      app.add_subcommand("reconcile",
                         "Release a scope's allocations except the wanted ones "
                         "and those with live processes");
  command->group(kJobsGroup);
  auto sent = std::make_shared<Reconciliation>();
  command->add_option("WANTED", sent->wanted,
                      "The ids of the allocations to keep");
  command->add_option(
      "--scope", sent->scope,
      "Name the scope, as given at PrepareAllocation (default: the empty one)");
  command
      ->add_option("--epoch", sent->epoch,
                   "Give the epoch, which grows with each start of the agent; "
                   "mountd refuses an older one")
      ->required();
  command->add_flag("--dry-run", sent->dry_run,
                    "Only say what reconcile would do");
  command->callback([&context, sent] {
    context.chosen = [&context, sent] {
      return WithClient(context, [&](Client& client) -> Result<void> {
        MOUNTD_ASSIGN(const auto list, client.Reconcile(*sent));
        if (context.json) {
          std::cout << Dump(ToJson(list)) << std::endl;
        } else if (list.empty()) {
          std::cout << "the scope has no allocations\n";
        } else {
          PrintReconciled(std::cout, list);
        }
        return Ok();
      });
    };
  });
}

}  // namespace mountd::agent
