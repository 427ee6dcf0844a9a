// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/executors/holder_report.h"

#include <algorithm>
#include <span>

namespace mountd {
namespace {

std::string HowOf(const exec::Holder& holder) {
  switch (holder.kind) {
    case exec::HolderKind::kCwd:
      return "cwd";
    case exec::HolderKind::kRoot:
      return "root";
    case exec::HolderKind::kExe:
      return "exe";
    case exec::HolderKind::kFd:
      return "fd " + std::to_string(holder.fd);
    case exec::HolderKind::kMember:
      return "cgroup";
    case exec::HolderKind::kNetwork:
      return "network namespace";
    case exec::HolderKind::kMount:
      return "mount";
    case exec::HolderKind::kNamespace:
      return "mount namespace";
    case exec::HolderKind::kDevice:
      return "device, fd " + std::to_string(holder.fd);
    case exec::HolderKind::kMap:
      break;
  }
  return "mmap";
}

std::string CommandOf(const exec::Holder& holder) {
  const auto end = std::find(holder.comm.begin(), holder.comm.end(), '\0');
  std::string command(holder.comm.begin(), end);
  std::replace_if(
      command.begin(), command.end(),
      [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return command;
}

}  // namespace

HolderReport ReportOf(const exec::HoldersState& state, std::uint32_t mount) {
  HolderReport report;
  report.more = state.more != 0;
  report.complete = state.incomplete == 0 && state.init_unseen == 0;
  for (const exec::Holder& holder :
       std::span(state.holders).first(state.count)) {
    if (holder.mount != mount) {
      continue;
    }
    report.holders.push_back(
        {holder.pid,
         HolderInfo::Details{holder.uid, CommandOf(holder), HowOf(holder),
                             holder.in_cgroup != 0, holder.is_copy != 0}});
  }
  return report;
}

std::optional<HolderReport> HoldersIn(exec::TaskExecutor& executor,
                                      std::uint64_t cgroup,
                                      std::uint64_t mount_id) {
  constexpr std::uint32_t kBudgetMs = 500;
  if (cgroup == 0 || mount_id == 0) {
    return std::nullopt;
  }
  const Result<exec::HoldersState> state = executor.FindHolders(
      {mount_id, exec::HolderScope::kCgroup, kBudgetMs, cgroup});
  return state ? std::optional(ReportOf(*state)) : std::nullopt;
}

std::string Summary(const HolderReport& report) {
  constexpr std::size_t kNamed = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(report.holders.size(), kNamed); ++i) {
    const HolderInfo& holder = report.holders[i];
    text += i == 0 ? "" : ", ";
    // pid 0 stands for a mount namespace without a process.
    if (holder.pid == 0) {
      text += "a mount namespace that no process is in";
      continue;
    }
    text += holder.details ? holder.details->command + " " : "";
    text += "(pid " + std::to_string(holder.pid);
    text += holder.details ? ", " + holder.details->how + ")" : ")";
  }
  return report.holders.size() > kNamed || report.more ? text + " and more"
                                                       : text;
}

}  // namespace mountd
