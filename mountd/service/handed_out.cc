// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/handed_out.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "mountd/executors/task_copies.h"

namespace mountd {
namespace {

using Records = std::span<const HandedOutRecord>;

// Searches the node. If the cgroup is gone or no rule grants it, searches again
// without the cgroup, because then nobody is in it.
Result<exec::HoldersState> SearchNode(const ServiceParts& parts, Records some,
                                      std::uint64_t cgroup) {
  exec::HoldersPlan plan;
  plan.scope = exec::HolderScope::kNode;
  plan.budget_ms = SearchBudgetMs(parts.config.timeouts().plan);
  plan.cgroup = cgroup;
  for (const HandedOutRecord& record : some) {
    plan.handed_out.at(plan.count++) = record.mount;
  }
  Result<exec::HoldersState> state = parts.executor.FindHolders(plan);
  if (!state && cgroup != 0 &&
      (state.error().code == Code::kNotFound ||
       state.error().code == Code::kPermissionDenied)) {
    return SearchNode(parts, some, 0);
  }
  return state;
}

Result<void> FindSome(const ServiceParts& parts, Records some,
                      std::uint64_t cgroup, HandedOutReport* report) {
  MOUNTD_ASSIGN(const exec::HoldersState state,
                SearchNode(parts, some, cgroup));
  for (std::uint32_t i = 0; i < some.size(); ++i) {
    // A search that skipped only init is complete, because init has none of
    // these mounts.
    if (((state.held >> i) & 1U) == 0 && state.incomplete == 0) {
      MOUNTD_TRY(parts.boot.handed_out.ForgetHandedOut(some[i]));
    } else {
      report->descriptors.push_back({some[i], ReportOf(state, i)});
    }
  }
  return Ok();
}

std::vector<Records> Split(Records all) {
  std::vector<Records> parts;
  for (; !all.empty(); all = all.subspan(parts.back().size())) {
    parts.push_back(all.first(std::min(all.size(), exec::kMaxHandedOut)));
  }
  return parts;
}

Result<std::optional<std::string>> LimitReached(const ServiceParts& parts,
                                                const HandedOutRecord& wanted) {
  const LimitsConfig limits = parts.config.limits();
  MOUNTD_ASSIGN(const std::uint32_t of_allocation,
                parts.boot.handed_out.CountHandedOut(wanted.allocation));
  if (of_allocation >= limits.mounts_per_allocation) {
    return std::optional<std::string>("limits.mounts_per_allocation");
  }
  MOUNTD_ASSIGN(const std::uint32_t of_user,
                parts.boot.handed_out.CountHandedOutOfUser(wanted.uid));
  return of_user >= limits.mounts_per_uid
             ? std::optional<std::string>("limits.mounts_per_uid")
             : std::nullopt;
}

}  // namespace

Result<HandedOutReport> FindHandedOut(
    const ServiceParts& parts, const std::vector<HandedOutRecord>& records,
    std::uint64_t cgroup) {
  HandedOutReport report;
  for (const Records some : Split(records)) {
    MOUNTD_TRY(FindSome(parts, some, cgroup, &report));
  }
  return report;
}

Result<void> MakeRoomFor(const ServiceParts& parts,
                         const HandedOutRecord& wanted) {
  MOUNTD_ASSIGN(std::optional<std::string> limit, LimitReached(parts, wanted));
  if (!limit) {
    return Ok();
  }
  MOUNTD_ASSIGN(std::vector<HandedOutRecord> records,
                parts.boot.handed_out.HandedOutOfUser(wanted.uid));
  // The allocation's own records first, because only they count against both
  // limits.
  std::stable_partition(records.begin(), records.end(),
                        [&](const HandedOutRecord& record) {
                          return record.allocation == wanted.allocation;
                        });
  // Searches for one part of the records after the other, the oldest first,
  // because one part usually makes enough room.
  for (const Records some : Split(records)) {
    HandedOutReport held;
    MOUNTD_TRY(FindSome(parts, some, 0, &held));
    if (held.descriptors.size() == some.size()) {
      continue;
    }
    MOUNTD_ASSIGN(limit, LimitReached(parts, wanted));
    if (!limit) {
      return Ok();
    }
  }
  return MakeError(Code::kResourceExhausted, "hand out",
                   wanted.allocation + "/" + wanted.name,
                   *limit +
                       " is reached by descriptors that processes still hold; "
                       "ListHandedOut names these processes");
}

// Records the mount that is handed out. Does not record a mount without a
// unique id, because a later mount may get the same id.
Result<UniqueFd> HandOut(
    const ServiceParts& parts, HandedOutRecord record,
    const std::function<Result<exec::HandedOutFd>()>& open) {
  MOUNTD_TRY(MakeRoomFor(parts, record));
  MOUNTD_ASSIGN(exec::HandedOutFd opened, open());
  record.mount = opened.mount;
  if (record.mount.mount_id != 0) {
    MOUNTD_TRY(parts.boot.handed_out.PutHandedOut(record));
  }
  return std::move(opened.fd);
}

}  // namespace mountd
