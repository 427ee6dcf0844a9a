// SPDX-License-Identifier: LGPL-2.1-or-later
#include <iostream>
#include <memory>

#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/output.h"

namespace mountd::agent {
namespace {

Result<void> ShowOwed(Client& client, bool json, bool retry) {
  if (retry) {
    MOUNTD_TRY(client.RetryOwed());
  }
  MOUNTD_ASSIGN(const auto owed, client.ListOwed());
  if (json) {
    std::cout << Dump(ToJson(owed)) << std::endl;
  } else if (owed.empty()) {
    std::cout << "no tear-down is pending\n";
  } else {
    PrintOwed(std::cout, owed);
  }
  return Ok();
}

Result<void> ShowCapabilities(Client& client, bool json) {
  MOUNTD_ASSIGN(const Capabilities offers, client.GetCapabilities());
  if (json) {
    std::cout << Dump(ToJson(offers)) << std::endl;
    return Ok();
  }
  std::cout << "mountd         " << Printable(offers.version)
            << "\nkernel         " << Printable(offers.kernel)
            << "\nnetwork modes  " << Printable(Join(offers.network_modes))
            << "\npropagation    " << Printable(Join(offers.propagation))
            << "\nsource types   " << Printable(Join(offers.source_types))
            << '\n';
  if (!offers.mount_namespace.empty()) {
    std::cout << "mounts are in  " << Printable(offers.mount_namespace) << '\n';
  }
  if (offers.stuck_executors != 0) {
    std::cout << "stuck          " << offers.stuck_executors
              << " executors, in the kernel\n";
  }
  for (const std::string& store : offers.stores_set_aside) {
    std::cout << "damaged store  " << Printable(store) << '\n';
  }
  Table table({"FEATURE", "OFFERED", "WHY NOT"});
  for (const auto& [feature, offered] : offers.features) {
    const auto reason = offers.missing.find(feature);
    table.Add({feature, YesNo(offered),
               reason == offers.missing.end() ? "" : reason->second});
  }
  for (const auto& [feature, reason] : offers.missing) {
    if (!offers.features.contains(feature)) {
      table.Add({feature, YesNo(false), reason});
    }
  }
  table.Print(std::cout);
  return Ok();
}

// Shows nothing if mountd is too old to count dropped peers.
Result<void> ShowDroppedPeers(Client& client) {
  const auto dropped = client.DroppedPeers();
  if (!dropped) {
    return dropped.error().code == Code::kNotSupported
               ? Ok()
               : Result<void>(dropped.error());
  }
  Table table({"PEERS DROPPED", "COUNT"});
  for (const auto& [reason, count] : *dropped) {
    table.Add({reason, std::to_string(count)});
  }
  std::cout << "\n";
  table.Print(std::cout);
  return Ok();
}

Result<void> ShowStatistics(Client& client, bool json) {
  MOUNTD_ASSIGN(const auto statistics, client.GetStatistics());
  if (json) {
    std::cout << Dump(ToJson(statistics)) << std::endl;
    return Ok();
  }
  Table table({"METHOD", "CALLS", "ERRORS", "MEDIAN", "P99"});
  for (const MethodStatistics& entry : statistics) {
    table.Add({entry.method, std::to_string(entry.calls),
               std::to_string(entry.errors),
               Millis(std::chrono::microseconds(entry.p50_us)),
               Millis(std::chrono::microseconds(entry.p99_us))});
  }
  table.Print(std::cout);
  return ShowDroppedPeers(client);
}

Result<void> ShowOperations(Client& client, bool json) {
  MOUNTD_ASSIGN(const auto operations, client.ListOperations());
  if (json) {
    std::cout << Dump(ToJson(operations)) << std::endl;
  } else if (operations.empty()) {
    std::cout << "no call is pending\n";
  } else {
    PrintOperations(std::cout, operations);
  }
  return Ok();
}

Result<void> Reload(Client& client, bool json) {
  MOUNTD_ASSIGN(const std::vector<std::string> sections, client.Reload());
  if (json) {
    std::cout << Dump(Json{{"restarts_for", sections}}) << std::endl;
    return Ok();
  }
  if (sections.empty()) {
    std::cout << "The configuration that was accepted last is in force."
              << std::endl;
    return Ok();
  }
  std::cout << "mountd starts again, because these sections changed:";
  for (const std::string& section : sections) {
    std::cout << " " << section;
  }
  std::cout << std::endl;
  return Ok();
}

void AddSimple(CLI::App& app, Context& context, const char* name,
               const char* help, Result<void> (*show)(Client&, bool)) {
  app.add_subcommand(name, help)->group(kNodeGroup)->callback([&context, show] {
    context.chosen = [&context, show] {
      return WithClient(
          context, [&](Client& client) { return show(client, context.json); });
    };
  });
}

}  // namespace

void AddNodeCommands(CLI::App& app, Context& context) {
  auto* owed = app.add_subcommand(
      "owed",
      "List the pending tear-downs, which failed and are retried, and why");
  owed->group(kNodeGroup);
  auto retry = std::make_shared<bool>(false);
  owed->add_flag("--retry", *retry, "Retry all of them now, and list the rest");
  owed->callback([&context, retry] {
    context.chosen = [&context, retry] {
      return WithClient(context, [&](Client& client) {
        return ShowOwed(client, context.json, *retry);
      });
    };
  });
  AddSimple(app, context, "capabilities",
            "Show what this node offers, and why it does not offer the rest",
            &ShowCapabilities);
  AddSimple(app, context, "operations",
            "List your pending calls and their steps, or everybody's for an "
            "administrator",
            &ShowOperations);
  AddSimple(app, context, "stats",
            "Show the calls since mountd's start and their times",
            &ShowStatistics);
  AddSimple(app, context, "reload",
            "Put the configuration that was accepted last in force (use "
            "systemctl reload mountd, which accepts it first)",
            &Reload);
}

}  // namespace mountd::agent
