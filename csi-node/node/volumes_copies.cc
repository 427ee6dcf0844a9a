// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Volumes and the copies that tasks have of them. mountd does not unpublish a
// volume while tasks have copies, and reports the volume as detached only after
// a second search.
#include "csi-node/node/volume_paths.h"
#include "csi-node/node/volumes.h"
#include "mountd/executors/task_copies.h"

namespace mountd::csi {

exec::CopiesPlan Volumes::CopiesOf(const VolumeRecord& volume,
                                   const std::string& allocation,
                                   const exec::FileSystemPlan& before,
                                   std::uint64_t cgroup) const {
  exec::CopiesPlan plan;
  plan.scope = exec::HolderScope::kCgroup;
  plan.budget_ms = SearchBudgetMs(config_.timeouts.plan);
  plan.cgroup = cgroup;
  plan.has_volume = 1;
  plan.volume = PublishDir(volume, allocation);
  plan.before = before;
  return plan;
}

// Looks only at the allocation's own processes if others use the volume, too,
// because a copy of another user's looks like a copy of the allocation's.
Result<void> Volumes::CheckBefore(const VolumeRecord& volume,
                                  const Leaving& leaving,
                                  PublicationRecord* publication) {
  exec::CopiesPlan plan = CopiesOf(volume, publication->allocation,
                                   publication->file_system, leaving.cgroup);
  plan.before.node = publication->device;
  if (leaving.cgroup == 0 && !leaving.was_looked_for) {
    MOUNTD_ASSIGN(const std::vector<PublicationRecord> users,
                  store_.volumes.UsersOf(volume.key));
    plan.scope = users.size() > 1 ? exec::HolderScope::kCgroup
                                  : exec::HolderScope::kNode;
  }
  MOUNTD_ASSIGN(const exec::CopiesState state, FindCopies(searches_, plan));
  publication->file_system = state.found;
  return CheckNoCopies(state.holders, "unpublish",
                       Described(publication->allocation, publication->alias));
}

Result<void> Volumes::CheckDeparted(const VolumeRecord& volume,
                                    const DepartedRecord& departed) {
  exec::CopiesPlan plan = CopiesOf(volume, departed.allocation,
                                   departed.file_system, departed.cgroup);
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> users,
                store_.volumes.UsersOf(volume.key));
  plan.scope =
      users.size() > 1 ? exec::HolderScope::kCgroup : exec::HolderScope::kNode;
  MOUNTD_ASSIGN(const exec::CopiesState state, FindCopies(searches_, plan));
  return CheckNoCopies(state.holders, "unpublish",
                       "a volume of " + departed.allocation);
}

// Searches the whole node again, because a process may have got a copy since
// the first search.
Result<void> Volumes::CheckAfter(const VolumeRecord& volume,
                                 const std::string& allocation,
                                 const exec::FileSystemPlan& before,
                                 std::uint64_t cgroup) {
  if (before.device == 0) {
    return Ok();  // it was mounted nowhere
  }
  exec::CopiesPlan plan = CopiesOf(volume, allocation, before, cgroup);
  plan.scope = exec::HolderScope::kNode;
  MOUNTD_ASSIGN(const exec::CopiesState state, FindCopies(searches_, plan));
  return CheckNoCopies(state.holders, "unstage", "a volume of " + allocation);
}

}  // namespace mountd::csi
