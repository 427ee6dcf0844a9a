// SPDX-License-Identifier: LGPL-2.1-or-later
#include <iostream>
#include <memory>
#include <optional>

#include "agent/fields/lease_fields.h"
#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/output.h"

namespace mountd::agent {
namespace {

constexpr char kLeasesGroup[] = "Leases";

void ShowLeases(const Context& context, const std::vector<Lease>& leases) {
  if (context.json) {
    std::cout << Dump(ToJson(leases)) << std::endl;
  } else {
    PrintLeases(std::cout, leases);
  }
}

void AddLeaseList(CLI::App& lease, Context& context) {
  auto* command = lease.add_subcommand("list", "List the leases");
  command->callback([&context] {
    context.chosen = [&context] {
      return WithClient(context, [&](Client& client) -> Result<void> {
        MOUNTD_ASSIGN(const std::vector<Lease> leases, client.ListLeases());
        ShowLeases(context, leases);
        return Ok();
      });
    };
  });
}

void AddAcquire(CLI::App& lease, Context& context) {
  struct Options {
    std::string name;
    LeaseSpec spec;
  };
  auto* command = lease.add_subcommand(
      "acquire", "Bind an allocation or a scope to a heartbeat");
  auto options = std::make_shared<Options>();
  command->add_option("LEASE", options->name, "The lease's name")->required();
  auto* alloc = command->add_option("--alloc", options->spec.allocation,
                                    "Bind this allocation");
  command
      ->add_option("--scope", options->spec.scope,
                   "Bind all your allocations of this scope")
      ->excludes(alloc);
  command
      ->add_option("--timeout", options->spec.timeout_ms,
                   "Let it lapse so many milliseconds after a renewal")
      ->required();
  command->add_flag("--keep", options->spec.keep,
                    "Keep the allocations after a lapse, fenced");
  command
      ->add_option("--stop-tasks", options->spec.stop_tasks,
                   "Stop the tasks after a lapse: no, freeze or kill")
      ->check(CLI::IsMember({"no", "freeze", "kill"}));
  command->callback([&context, options] {
    context.chosen = [&context, options] {
      return WithClient(context, [&](Client& client) -> Result<void> {
        MOUNTD_ASSIGN(const Lease acquired,
                      client.AcquireLease(options->name, options->spec));
        ShowLeases(context, {acquired});
        return Ok();
      });
    };
  });
}

void AddRenew(CLI::App& lease, Context& context) {
  auto* command =
      lease.add_subcommand("renew", "Move the deadline of a heartbeat");
  auto name = std::make_shared<std::string>();
  command->add_option("LEASE", *name, "The lease's name")->required();
  command->callback([&context, name] {
    context.chosen = [&context, name] {
      return WithClient(context, [&](Client& client) -> Result<void> {
        MOUNTD_ASSIGN(const Lease renewed, client.RenewLease(*name));
        ShowLeases(context, {renewed});
        return Ok();
      });
    };
  });
}

void AddRelease(CLI::App& lease, Context& context) {
  struct Options {
    std::string name;
    std::optional<std::uint32_t> uid;
  };
  auto* command =
      lease.add_subcommand("release", "End a lease without a fence");
  auto options = std::make_shared<Options>();
  command->add_option("LEASE", options->name, "The lease's name")->required();
  command->add_option("--uid", options->uid,
                      "End the lease of this user, as an administrator");
  command->callback([&context, options] {
    context.chosen = [&context, options] {
      return WithClient(context, [&](Client& client) {
        return client.ReleaseLease(options->name, options->uid);
      });
    };
  });
}

void AddFence(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand(
      "fence", "Show the fence of an allocation whose lease has lapsed");
  command->group(kLeasesGroup);
  auto allocation = std::make_shared<std::string>();
  command
      ->add_option("ALLOC", *allocation,
                   "The id of an allocation, which may be released")
      ->required();
  command->callback([&context, allocation] {
    context.chosen = [&context, allocation] {
      return WithClient(context, [&](Client& client) -> Result<void> {
        MOUNTD_ASSIGN(const Fence fence, client.GetFence(*allocation));
        if (context.json) {
          std::cout << Dump(ToJson(fence)) << std::endl;
        } else {
          PrintFence(std::cout, fence);
        }
        return Ok();
      });
    };
  });
}

}  // namespace

void AddLeaseCommands(CLI::App& app, Context& context) {
  auto* lease = app.add_subcommand(
      "lease", "Acquire, renew, release and list leases of allocations");
  lease->group(kLeasesGroup)->require_subcommand(1);
  AddLeaseList(*lease, context);
  AddAcquire(*lease, context);
  AddRenew(*lease, context);
  AddRelease(*lease, context);
  AddFence(app, context);
}

}  // namespace mountd::agent
