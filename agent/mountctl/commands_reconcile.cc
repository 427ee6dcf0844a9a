// SPDX-License-Identifier: LGPL-2.1-or-later
#include <iostream>
#include <memory>

#include "agent/mountctl/commands.h"
#include "agent/mountctl/json.h"
#include "agent/mountctl/output.h"

namespace mountd::agent {

void AddReconcileCommand(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand(
      "reconcile",
      "Release what a scope has beyond what is wanted, except "
      "what has live processes");
  command->group(kJobsGroup);
  auto sent = std::make_shared<Reconciliation>();
  command->add_option("WANTED", sent->wanted, "The allocations to be kept");
  command->add_option("--scope", sent->scope,
                      "As given when they were prepared (none)");
  command
      ->add_option(
          "--epoch", sent->epoch,
          "Grows with each start of the agent; an older one is refused")
      ->required();
  command->add_flag("--dry-run", sent->dry_run, "Only say what would become");
  command->callback([&context, sent] {
    context.chosen = [&context, sent] {
      return WithClient(context, [&](Client& client) -> Result<void> {
        MOUNTD_ASSIGN(const auto list, client.Reconcile(*sent));
        if (context.json) {
          std::cout << Dump(ToJson(list)) << std::endl;
        } else if (list.empty()) {
          std::cout << "the scope has nothing\n";
        } else {
          PrintReconciled(std::cout, list);
        }
        return Ok();
      });
    };
  });
}

}  // namespace mountd::agent
