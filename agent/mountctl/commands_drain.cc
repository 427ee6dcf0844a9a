// SPDX-License-Identifier: LGPL-2.1-or-later
#include <iostream>
#include <memory>

#include "agent/mountctl/commands.h"
#include "agent/mountctl/drain.h"
#include "agent/mountctl/json.h"
#include "agent/mountctl/output.h"

namespace mountd::agent {
namespace {

constexpr char kDrainDetails[] = R"(
Details:
  Releases, each as stop does and a few at once, all allocations that are there
  and that the caller may administer: its own; everybody's for root and
  administrators. Those in which a plugin runs go last, once nothing of its
  volumes is staged for others.

  What fails, and what is owed, is tried again until --timeout is over. Then the
  exit status is 1, with what is left, why, and which processes hold it.

  It keeps nothing new out. That is the scheduler's task, to be done before.)";

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
    words.emplace_back("and perhaps more");
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
  Drain drain(context.options, [&context](const DrainedAllocation& one) {
    if (!context.json) {
      PrintGone(one);
    }
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
  auto* command = app.add_subcommand(
      "drain",
      "Before maintenance: release all allocations, and wait for what is owed");
  command->footer(kDrainDetails);
  command->group(kJobsGroup);
  auto dry_run = std::make_shared<bool>(false);
  command->add_flag("--dry-run", *dry_run, "Only say what would be released");
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
