// SPDX-License-Identifier: LGPL-2.1-or-later
#include <iostream>
#include <memory>

#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/commands/drain.h"
#include "agent/mountctl/commands/release_jobs.h"
#include "agent/mountctl/commands/task_access.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/output.h"

namespace mountd::agent {
namespace {

constexpr char kDrainDetails[] = R"(
Details:
  Drain releases, as stop does and a few at once, all allocations of the caller,
  or everybody's if the caller is root or an administrator. An allocation in
  which a plugin runs goes last, when none of its volumes is staged for others.

  Drain ends the tasks that mountctl runs for the caller in this --state. Tasks
  of other users go on without their volumes, so these users end them first.

  Drain retries failed releases and pending tear-downs until --timeout ends. If
  some are left then, it prints them, why, and the processes that hold them, and
  the exit status is 1.

  Drain does not stop new allocations. Stop the scheduler from placing jobs here
  first.)";

std::string OwnerOf(const AllocationEntry& entry) {
  return entry.id + "  uid " + std::to_string(entry.uid);
}

void PrintLine(const char* what, const std::string& text) {
  std::cout << what << Printable(text) << std::endl;
}

void PrintGone(const DrainedAllocation& one) {
  std::string text = OwnerOf(one.entry);
  if (one.receipt) {
    for (const ReleasedVolume& volume : one.receipt->owed) {
      text += ", to be unstaged: " + volume.plugin + "/" + volume.volume;
    }
  }
  PrintLine("released  ", text);
}

std::string Named(const Holder& holder) {
  std::string text = "pid " + std::to_string(holder.pid);
  if (!holder.how.empty()) {
    text += " (" + holder.command + ", uid " + std::to_string(holder.uid) +
            ", " + holder.how + ")";
  }
  return text;
}

void PrintHeld(const HeldMount& held) {
  std::vector<std::string> words;
  for (const Holder& holder : held.holders.holders) {
    words.push_back(Named(holder));
  }
  if (held.holders.more || !held.holders.complete) {
    words.emplace_back("and perhaps others");
  }
  PrintLine("held      ", held.allocation + "/" + held.task + "/" + held.name +
                              ": " + Join(words));
}

void PrintRest(const DrainReport& report) {
  for (const DrainedAllocation& one : report.left) {
    const Error& error = *one.error;
    PrintLine("left      ",
              OwnerOf(one.entry) + ": " + std::string(CodeName(error.code)) +
                  ": " +
                  (error.detail.empty() ? error.Message() : error.detail));
  }
  for (const HeldMount& held : report.held) {
    PrintHeld(held);
  }
  for (const OwedTeardown& owed : report.owed) {
    PrintLine("owed      ", owed.kind + " " + owed.object + ", for " +
                                Age(AgeOf(owed.since)) + ": " + owed.reason);
  }
  if (report.complete() && report.released.empty()) {
    std::cout << "there is nothing to release" << std::endl;
  }
}

Json ToJson(const DrainedAllocation& one) {
  Json json = ToJson(one.entry);
  if (one.receipt) {
    json["receipt"] = ToJson(*one.receipt);
  }
  if (one.error) {
    json["error"] = CodeName(one.error->code);
    json["reason"] =
        one.error->detail.empty() ? one.error->Message() : one.error->detail;
  }
  return json;
}

Json ToJson(const HeldMount& held) {
  Json json = {{"allocation", held.allocation},
               {"task", held.task},
               {"name", held.name}};
  json.update(ToJson(held.holders));
  return json;
}

template <typename T>
Json ListToJson(const std::vector<T>& list) {
  Json array = Json::array();
  for (const T& one : list) {
    array.push_back(ToJson(one));
  }
  return array;
}

Result<void> DryRun(Client& client, bool json) {
  MOUNTD_ASSIGN(const auto all, client.ListAllocations());
  if (json) {
    std::cout << Dump({{"would_release", ListToJson(all)}}) << std::endl;
    return Ok();
  }
  for (const AllocationEntry& entry : all) {
    PrintLine("would release  ", OwnerOf(entry));
  }
  if (all.empty()) {
    std::cout << "there is nothing to release" << std::endl;
  }
  return Ok();
}

int RunDrain(const Context& context) {
  Drain drain(
      context.options,
      [&context](const DrainedAllocation& one) {
        if (!context.json) {
          PrintGone(one);
        }
      },
      // Ends the tasks that mountctl runs there, as stop does.
      [&context](Client& client, const std::string& allocation) {
        return StopAllocation(context, client, allocation, OnTasks::kRefuse);
      });
  const Result<DrainReport> report = drain.Run();
  if (!report) {
    return Fail(report.error());
  }
  if (context.json) {
    std::cout << Dump({{"released", ListToJson(report->released)},
                       {"left", ListToJson(report->left)},
                       {"owed", ListToJson(report->owed)},
                       {"held", ListToJson(report->held)}})
              << std::endl;
  } else {
    PrintRest(*report);
  }
  if (report->complete()) {
    return kExitOk;
  }
  std::cerr << "mountctl: left: " << Count(report->left.size(), "allocation")
            << ", " << Count(report->owed.size(), "tear-down") << std::endl;
  return kExitError;
}

}  // namespace

void AddDrainCommand(CLI::App& app, Context& context) {
  auto* command =
      app.add_subcommand("drain",
                         "Release all allocations before maintenance, and wait "
                         "for pending tear-downs");
  command->footer(kDrainDetails);
  command->group(kJobsGroup);
  auto dry_run = std::make_shared<bool>(false);
  command->add_flag("--dry-run", *dry_run, "Only say what drain would release");
  command->callback([&context, dry_run] {
    context.chosen = [&context, dry_run] {
      if (!*dry_run) {
        return RunDrain(context);
      }
      return WithClient(context, [&](Client& client) {
        return DryRun(client, context.json);
      });
    };
  });
}

}  // namespace mountd::agent
