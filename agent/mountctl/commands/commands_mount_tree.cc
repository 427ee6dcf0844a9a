// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountctl tree. output/mount_tree.h draws it.
#include <langinfo.h>

#include <clocale>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/mount_tree.h"

namespace mountd::agent {
namespace {

// Returns the status of all allocations that the caller may see, or of the
// named one.
Result<std::vector<AllocationStatus>> Statuses(Client& client,
                                               const std::string& allocation) {
  std::vector<std::string> ids = {allocation};
  if (allocation.empty()) {
    MOUNTD_ASSIGN(const auto entries, client.ListAllocations());
    ids.clear();
    for (const AllocationEntry& entry : entries) {
      ids.push_back(entry.id);
    }
  }
  std::vector<AllocationStatus> all;
  for (const std::string& id : ids) {
    // An allocation of the list may be released before GetAllocation.
    Result<AllocationStatus> status = client.GetAllocation(id);
    if (status) {
      all.push_back(*std::move(status));
    } else if (status.error().code != Code::kNotFound || !allocation.empty()) {
      return std::move(status).error();
    }
  }
  return all;
}

}  // namespace

void AddTreeCommand(CLI::App& app, Context& context) {
  struct Options {
    std::string allocation;
    bool ascii = false;
  };
  auto* command = app.add_subcommand(
      "tree", "Draw the mounts and how later mounts propagate between them");
  command->group(kPartsGroup);
  auto options = std::make_shared<Options>();
  command->add_option("ALLOC", options->allocation,
                      "Draw only this allocation (default: all)");
  command->add_flag("--ascii", options->ascii,
                    "Draw with ASCII characters only");
  command->callback([&context, options] {
    context.chosen = [&context, options] {
      return WithClient(context, [&](Client& client) -> Result<void> {
        MOUNTD_ASSIGN(const auto all, Statuses(client, options->allocation));
        const bool utf8 = !options->ascii &&
                          std::setlocale(LC_CTYPE, "") != nullptr &&
                          std::string_view(::nl_langinfo(CODESET)) == "UTF-8";
        if (context.json) {
          std::cout << Dump(TreeToJson(all)) << std::endl;
        } else {
          PrintTree(std::cout, all, utf8 ? Lines::kUtf8 : Lines::kAscii);
        }
        return Ok();
      });
    };
  });
}

}  // namespace mountd::agent
