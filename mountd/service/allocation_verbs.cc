// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/allocation_verbs.h"

#include <algorithm>
#include <utility>

#include "mountd/base/paths.h"
#include "mountd/service/stop_rights.h"
#include "mountd/service/unchecked_mounts.h"

namespace mountd {
namespace {

std::string HostPath(const std::string& allocation) {
  return std::string(paths::kBase) + "/" + paths::kAllocations + "/" +
         allocation;
}

bool HasPendingFence(const Leases& leases, const std::string& allocation) {
  const std::vector<FenceRecord> all = leases.Pending();
  return std::any_of(all.begin(), all.end(), [&](const FenceRecord& fence) {
    return fence.allocation == allocation;
  });
}

}  // namespace

// Finishes a release that only has to remove the directory, and returns whether
// it did. A PrepareAllocation that fails and cannot be undone leaves such a
// release, and the same call must succeed later. Removing the directory is one
// plan, so the caller's call can wait for it.
Result<bool> AllocationVerbs::FinishBareRelease(
    const CallContext& call, const AllocationRecord& record) {
  if (record.state == AllocationState::kPrepared) {
    return false;
  }
  MOUNTD_TRY(access_.PolicyFor(call).MayUse(call.caller, record.uid,
                                            "allocation " + record.id));
  MOUNTD_ASSIGN(const std::vector<MountRecord> mounts,
                parts_.boot.mounts.MountsOf(record.id));
  MOUNTD_ASSIGN(const std::vector<NetworkRecord> networks,
                parts_.boot.networks.NetworksOf(record.id));
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> volumes,
                parts_.state.volumes.PublicationsOf(record.id));
  if (!mounts.empty() || !networks.empty() || !volumes.empty()) {
    return false;
  }
  MOUNTD_TRY(teardowns_.Release(
      record, {OnTasks::kRefuse, call.progress, call.cancelled}));
  return true;
}

Result<std::string> AllocationVerbs::PrepareAgain(const CallContext& call,
                                                  const std::string& allocation,
                                                  std::uint64_t cgroup,
                                                  std::uint32_t group,
                                                  bool lease_required) {
  // A fenced allocation may get a cgroup, too, because the next lease may need
  // it.
  MOUNTD_ASSIGN(const AllocationRecord record,
                access_.FindUnreleased(call, allocation));
  prepared_.Note(record.id);
  const bool moves = cgroup != 0 && cgroup != record.cgroup;
  // During a fence the cgroup must stay the same, because the fence stops and
  // searches the tasks of the cgroup that the record names. The group must not
  // change, either.
  if ((moves || group != 0) && HasPendingFence(leases_, record.id)) {
    MOUNTD_TRY(leases_.CheckUsable(record));
  }
  MOUNTD_TRY(CheckCgroup(call, record, cgroup));
  MOUNTD_TRY(MakeDirectory(record, group));
  if (moves) {
    MOUNTD_TRY(NoteLeftCgroup(parts_, record));
    MOUNTD_TRY(parts_.state.allocations.SetAllocationCgroup(record.id, cgroup));
    // Check again, because a lease that stops tasks may have been acquired
    // since.
    Result<void> may = leases_.StopOf(record) == exec::TaskStop::kNo
                           ? Ok()
                           : CheckCgroup(call, record, cgroup);
    if (!may) {
      IgnoreBecauseBestEffort(parts_.state.allocations.SetAllocationCgroup(
          record.id, record.cgroup));
      return std::move(may).error();
    }
  }
  if (lease_required && !record.lease_required) {
    MOUNTD_TRY(parts_.state.allocations.SetLeaseRequired(record.id));
  }
  return HostPath(record.id);
}

Result<std::string> AllocationVerbs::PrepareAllocation(
    const CallContext& call, const Name& allocation, const std::string& scope,
    std::uint64_t cgroup, std::uint32_t group, bool lease_required) {
  MOUNTD_TRY(access_.PolicyFor(call).MayPrepare(call.caller));
  if (group != 0) {
    MOUNTD_TRY(access_.PolicyFor(call).MayLetPass(call.caller, group));
  }
  MOUNTD_ASSIGN(std::optional<AllocationRecord> known,
                parts_.state.allocations.GetAllocation(allocation.str()));
  if (known) {
    MOUNTD_ASSIGN(const bool released, FinishBareRelease(call, *known));
    if (released) {
      known.reset();
    }
  }
  if (known) {
    return PrepareAgain(call, allocation.str(), cgroup, group, lease_required);
  }
  MOUNTD_ASSIGN(const std::uint32_t count,
                parts_.state.allocations.CountAllocations(call.caller.uid));
  if (count >= parts_.config.limits().allocations_per_uid) {
    return MakeError(Code::kResourceExhausted, "prepare",
                     "allocation " + allocation.str(),
                     "limits.allocations_per_uid is reached; release others of "
                     "this user or raise the limit");
  }
  const AllocationRecord record{
      allocation.str(),           call.caller.uid, call.caller.gid, scope,
      AllocationState::kPrepared, cgroup,          lease_required};
  MOUNTD_TRY(CheckCgroup(call, record, cgroup));
  MOUNTD_TRY(leases_.BeginHistory(record.id, record.uid));
  // Check again, because the scope's lease may have lapsed.
  MOUNTD_TRY(leases_.CheckUsable(record));
  // The record comes first, so that the next start knows the directory's owner.
  MOUNTD_TRY(parts_.state.allocations.AddAllocation(record));
  prepared_.Note(record.id);
  if (Result<void> made = MakeUsable(call, record, group); !made) {
    Error error = std::move(made).error();
    IgnoreBecauseBestEffort(teardowns_.Release(record));
    return error;
  }
  return HostPath(record.id);
}

Result<void> AllocationVerbs::MakeUsable(const CallContext& call,
                                         const AllocationRecord& record,
                                         std::uint32_t group) {
  MOUNTD_TRY(MakeDirectory(record, group));
  MOUNTD_TRY(leases_.CheckUsable(record));
  // Check again, because the scope's lease may have been acquired after the
  // check before the record.
  return leases_.StopOf(record) == exec::TaskStop::kNo
             ? Ok()
             : CheckCgroup(call, record, record.cgroup);
}

// Makes the directory, and then writes the group into the record. The directory
// itself keeps the group, because a later plan without a group leaves it
// unchanged. If mountd is killed in between, a start copies the directory's
// group into the record.
Result<void> AllocationVerbs::MakeDirectory(const AllocationRecord& record,
                                            std::uint32_t group) {
  exec::AllocationPlan plan = PlanOf(record);
  plan.group = group;
  MOUNTD_TRY(parts_.executor.PrepareAllocation(plan));
  return group == 0 || group == record.group
             ? Ok()
             : parts_.state.allocations.SetAllocationGroup(record.id, group);
}

// Checks the cgroup against the rules. An fd of the cgroup gives no right,
// because any process may have an fd of any cgroup. A lease that stops tasks
// needs the right to stop them in each cgroup that the lease covers later.
Result<void> AllocationVerbs::CheckCgroup(const CallContext& call,
                                          const AllocationRecord& record,
                                          std::uint64_t cgroup) {
  const exec::TaskStop stop = leases_.StopOf(record);
  if (cgroup == 0 && (stop == exec::TaskStop::kNo || record.cgroup != 0)) {
    return Ok();
  }
  if (cgroup == 0) {
    return MakeError(Code::kFailedPrecondition, "prepare",
                     "allocation " + record.id,
                     "its lease stops tasks, so it needs a cgroup");
  }
  MOUNTD_ASSIGN(const exec::CgroupState state,
                parts_.executor.InspectCgroup({cgroup}));
  MOUNTD_TRY(
      access_.PolicyFor(call).MayUseCgroup(call.caller, state.path.data()));
  return stop == exec::TaskStop::kNo
             ? Ok()
             : MayFence(parts_, access_.PolicyFor(call), call.caller,
                        state.path.data(), stop);
}

Result<ReceiptRecord> AllocationVerbs::ReleaseAllocation(
    const CallContext& call, const Name& allocation, OnTasks on_tasks,
    OnlyIf only_if) {
  MOUNTD_ASSIGN(const std::optional<AllocationRecord> record,
                parts_.state.allocations.GetAllocation(allocation.str()));
  if (!record) {
    // The allocation was released before, so return the same answer.
    return GetReceipt(call, allocation);
  }
  MOUNTD_TRY(access_.PolicyFor(call).MayUse(call.caller, record->uid,
                                            "allocation " + allocation.str()));
  MOUNTD_TRY(CheckOnlyIf(parts_, *record, only_if));
  return teardowns_.Release(*record, {on_tasks, call.progress, call.cancelled});
}

Result<ReceiptRecord> AllocationVerbs::GetReceipt(const CallContext& call,
                                                  const Name& allocation) {
  MOUNTD_ASSIGN(const std::vector<UncheckedRecord> before,
                parts_.state.unchecked.UncheckedOf(allocation.str()));
  MOUNTD_ASSIGN(ReceiptRecord receipt,
                access_.FindReceipt(call, allocation.str()));
  MOUNTD_ASSIGN(const std::optional<std::string> users,
                UsersOfReleased(parts_, allocation.str(), before, receipt.uid));
  receipt.has_users = users.has_value();
  return receipt;
}

Result<AllocationStatus> AllocationVerbs::GetAllocation(
    const CallContext& call, const Name& allocation) {
  AllocationStatus status;
  MOUNTD_ASSIGN(status.record, access_.Find(call, allocation.str()));
  status.host_path = HostPath(allocation.str());
  MOUNTD_ASSIGN(status.networks, parts_.networks.Of(allocation.str()));
  MOUNTD_ASSIGN(status.mounts, parts_.mounts.Of(allocation.str()));
  for (MountConfig& mount : status.mounts) {
    mount.health = parts_.healths.Of(mount.record.mount_id);
  }
  MOUNTD_ASSIGN(status.inboxes,
                parts_.boot.inboxes.InboxesOf(allocation.str()));
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> publications,
                parts_.volumes.Of(allocation.str()));
  for (const PublicationRecord& publication : publications) {
    MOUNTD_ASSIGN(const std::optional<VolumeRecord> volume,
                  parts_.state.volumes.GetVolume(publication.key));
    MOUNTD_ASSIGN(const std::optional<csi::PublishedVolume> published,
                  parts_.volumes.Get(allocation.str(), publication.alias));
    if (volume && published) {
      status.volumes.push_back({publication, volume->plugin, volume->volume_id,
                                published->host_path});
    }
  }
  return status;
}

Result<std::vector<AllocationRecord>> AllocationVerbs::ListAllocations(
    const CallContext& call) {
  MOUNTD_ASSIGN(std::vector<AllocationRecord> all,
                parts_.state.allocations.ListAllocations());
  std::erase_if(all, [&](const AllocationRecord& record) {
    return !access_.Sees(call, record.uid);
  });
  return all;
}

}  // namespace mountd
