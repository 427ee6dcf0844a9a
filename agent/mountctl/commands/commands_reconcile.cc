// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "agent/mountctl/commands/task_access.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/output.h"

namespace mountd::agent {
namespace {

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Adds the allocations with tasks to the wanted ones, so that mountd keeps
// them. mountd does not see every container of the caller, because a container
// has copies of mounts in a namespace of its own.
Result<std::vector<ReconciledAllocation>> ReconcileAroundTasks(
    const Context& context, Client& client, Reconciliation sent) {
  const std::vector<std::string> wanted = sent.wanted;
  MOUNTD_ASSIGN(const auto busy, AllocationsWithTasks(context));
  for (const std::string& name : busy) {
    if (!Has(wanted, name)) {
      sent.wanted.push_back(name);
    }
  }
  MOUNTD_ASSIGN(auto list, client.Reconcile(sent));
  // mountd reports "missing" for an added allocation of another scope.
  std::erase_if(list, [&](const ReconciledAllocation& one) {
    return one.outcome == "missing" && !Has(wanted, one.allocation);
  });
  return list;
}

}  // namespace

void AddReconcileCommand(CLI::App& app, Context& context) {
  auto* command =
      app.add_subcommand("reconcile",
                         "Release a scope's allocations except the wanted ones "
                         "and those with live processes or tasks");
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
        MOUNTD_ASSIGN(const auto list,
                      ReconcileAroundTasks(context, client, *sent));
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
