// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>

#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/output_grants.h"

namespace mountd::agent {
namespace {

Result<void> ShowGrants(Client& client, bool json,
                        const std::optional<std::uint32_t>& uid) {
  GrantReport report;
  MOUNTD_ASSIGN(report.host_volumes, client.ListHostVolumes(uid));
  MOUNTD_ASSIGN(report.filesystems, client.ListFilesystems(uid));
  MOUNTD_ASSIGN(report.networks, client.ListNetworks(uid));
  if (json) {
    std::cout << Dump(ToJson(report)) << std::endl;
  } else {
    PrintGrants(std::cout, report);
  }
  return Ok();
}

}  // namespace

void AddGrantsCommand(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand(
      "grants",
      "List the host volumes, file systems and networks that rules grant you");
  command->group(kNodeGroup);
  auto uid = std::make_shared<std::optional<std::uint32_t>>();
  command->add_option(
      "--uid", *uid,
      "List what rules grant this user instead; fail unless you are an "
      "administrator, or this user");
  command->callback([&context, uid] {
    context.chosen = [&context, uid] {
      return WithClient(context, [&](Client& client) {
        return ShowGrants(client, context.json, *uid);
      });
    };
  });
}

}  // namespace mountd::agent
