// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/unchecked_mounts.h"

#include <algorithm>

#include "mountd/executors/holder_report.h"
#include "mountd/executors/task_copies.h"

namespace mountd {
namespace {

bool FreesAClaim(const MountRecord& mount) {
  return mount.wish.source_kind != exec::SourceKind::kTmpfs &&
         mount.wish.source_kind != exec::SourceKind::kPublishedVolume;
}

// Returns the cgroup's processes as text; nothing if the cgroup has no process
// or is gone.
std::optional<std::string> MembersAsText(const ServiceParts& parts,
                                         std::uint64_t cgroup) {
  const Result<exec::HoldersState> found = parts.executor.FindProcesses(
      {cgroup, 0, SearchBudgetMs(parts.config.timeouts().plan)});
  if (!found) {
    return found.error().code == Code::kNotFound
               ? std::nullopt
               : std::optional(
                     "mountd cannot tell whether processes use "
                     "mounts that were removed: " +
                     found.error().Message());
  }
  const HolderReport report = ReportOf(*found);
  if (!report.holders.empty() || report.more) {
    return "processes may use mounts that were removed: " + Summary(report);
  }
  return found->incomplete == 0
             ? std::nullopt
             : std::optional<std::string>(
                   "processes that mountd could not look at may use mounts "
                   "that were removed");
}

Result<void> Note(const ServiceParts& parts, const AllocationRecord& record) {
  MOUNTD_ASSIGN(std::vector<UncheckedRecord> others,
                parts.state.unchecked.UncheckedOf(record.id));
  // An allocation may have had other cgroups before. Forget those without
  // processes.
  std::erase_if(others, [&](const UncheckedRecord& other) {
    return other.cgroup == record.cgroup;
  });
  MOUNTD_TRY(UsersOfUnchecked(parts, others, record.uid));
  return parts.state.unchecked.PutUnchecked(
      {0, record.id, record.uid, record.cgroup});
}

}  // namespace

Result<void> NoteUnchecked(const ServiceParts& parts,
                           const AllocationRecord& record,
                           const std::vector<MountRecord>& mounts) {
  return record.cgroup == 0 ||
                 std::none_of(mounts.begin(), mounts.end(), FreesAClaim)
             ? Ok()
             : Note(parts, record);
}

Result<void> NoteLeftCgroup(const ServiceParts& parts,
                            const AllocationRecord& record) {
  // Each look at the allocation's users asks the executor about each of them.
  constexpr std::size_t kMostLeft = 16;
  if (record.cgroup == 0) {
    return Ok();
  }
  MOUNTD_TRY(Note(parts, record));
  MOUNTD_ASSIGN(const std::vector<UncheckedRecord> left,
                parts.state.unchecked.UncheckedOf(record.id));
  return left.size() <= kMostLeft
             ? Ok()
             : Result<void>(MakeError(
                   Code::kResourceExhausted, "move", "allocation " + record.id,
                   "processes of " + std::to_string(kMostLeft) +
                       " earlier cgroups of it are left; end them first"));
}

Result<std::optional<std::string>> UsersOfUnchecked(
    const ServiceParts& parts, const std::vector<UncheckedRecord>& records,
    std::uint32_t uid) {
  std::optional<std::string> users;
  for (const UncheckedRecord& record : records) {
    // Another user may have had an allocation of this name.
    if (record.uid != uid) {
      continue;
    }
    std::optional<std::string> members = MembersAsText(parts, record.cgroup);
    if (!members) {
      MOUNTD_TRY(parts.state.unchecked.RemoveUnchecked(record));
    } else if (!users) {
      users = std::move(members);
    }
  }
  return users;
}

Result<std::optional<std::string>> UsersOfReleased(
    const ServiceParts& parts, const std::string& allocation,
    const std::vector<UncheckedRecord>& before, std::uint32_t uid) {
  MOUNTD_ASSIGN(std::optional<std::string> users,
                UsersOfUnchecked(parts, before, uid));
  if (users) {
    return users;
  }
  const auto is_known = [&](const UncheckedRecord& record) {
    return std::any_of(before.begin(), before.end(),
                       [&](const UncheckedRecord& known) {
                         return known.serial == record.serial;
                       });
  };
  MOUNTD_ASSIGN(const std::vector<UncheckedRecord> records,
                parts.state.unchecked.UncheckedOf(allocation));
  for (const UncheckedRecord& record : records) {
    if (record.uid == uid && !is_known(record)) {
      users = MembersAsText(parts, record.cgroup);
    }
    if (users) {
      return users;
    }
  }
  return std::optional<std::string>();
}

}  // namespace mountd
