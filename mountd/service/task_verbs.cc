// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/task_verbs.h"

#include <algorithm>
#include <span>
#include <utility>

#include "mountd/executors/task_copies.h"

namespace mountd {

Result<HolderReport> TaskVerbs::ListHolders(const CallContext& call,
                                            const Name& allocation,
                                            const Name& task, const Name& name,
                                            exec::HolderScope scope) {
  MOUNTD_ASSIGN(const AllocationRecord record,
                access_.Find(call, allocation.str()));
  const std::string object =
      allocation.str() + "/" + task.str() + "/" + name.str();
  MOUNTD_ASSIGN(
      const std::optional<MountRecord> mount,
      parts_.boot.mounts.GetMount(allocation.str(), task.str(), name.str()));
  if (!mount || mount->mount_id == 0) {
    return MakeError(Code::kNotFound, "list holders", object, "is not mounted");
  }
  if (scope == exec::HolderScope::kCgroup && record.cgroup == 0) {
    return MakeError(
        Code::kFailedPrecondition, "list holders", object,
        "the allocation was prepared without a cgroup; ask for the scope node");
  }
  MOUNTD_ASSIGN(
      const exec::HoldersState state,
      parts_.executor.FindHolders(
          {mount->mount_id, scope,
           SearchBudgetMs(parts_.config.timeouts().plan), record.cgroup}));
  HolderReport report = ReportOf(state);
  MOUNTD_TRY(AddCopies(record, *mount, scope, &report));
  access_.HideOthers(call, &report);
  return report;
}

// Adds the processes that have a copy of the mount, because such a process can
// open the mount again at any time.
Result<void> TaskVerbs::AddCopies(const AllocationRecord& record,
                                  const MountRecord& mount,
                                  exec::HolderScope scope,
                                  HolderReport* report) {
  exec::CopiesPlan plan;
  plan.scope = scope;
  plan.cgroup = record.cgroup;
  plan.budget_ms = SearchBudgetMs(parts_.config.timeouts().plan);
  plan.count = 1;
  plan.mount_ids[0] = mount.mount_id;
  MOUNTD_ASSIGN(const exec::CopiesState found,
                parts_.executor.FindCopies(plan));
  HolderReport copies = ReportOf(found.holders);
  report->more = report->more || copies.more;
  report->complete = report->complete && copies.complete;
  for (HolderInfo& copy : copies.holders) {
    if (std::none_of(
            report->holders.begin(), report->holders.end(),
            [&](const HolderInfo& one) { return one.pid == copy.pid; })) {
      report->holders.push_back(std::move(copy));
    }
  }
  return Ok();
}

Result<HandedOutReport> TaskVerbs::ListHandedOut(const CallContext& call,
                                                 const Name& allocation) {
  MOUNTD_ASSIGN(const std::optional<AllocationRecord> record,
                parts_.state.allocations.GetAllocation(allocation.str()));
  MOUNTD_ASSIGN(std::vector<HandedOutRecord> records,
                parts_.boot.handed_out.HandedOutOf(allocation.str()));
  // Remove records of another user, who may have had an allocation of this name
  // before.
  std::erase_if(records, [&](const HandedOutRecord& one) {
    return !access_.Sees(call, one.uid);
  });
  const bool is_callers = record && access_.Sees(call, record->uid);
  if (record && (is_callers || records.empty())) {
    MOUNTD_TRY(access_.Find(call, allocation.str()));
  } else if (records.empty()) {
    MOUNTD_TRY(access_.FindReceipt(call, allocation.str()));
  } else {
    MOUNTD_TRY(access_.PolicyFor(call).MayUse(
        call.caller, records.front().uid, "allocation " + allocation.str()));
  }
  MOUNTD_ASSIGN(const exec::HelloReply hello, features_.Get());
  MOUNTD_ASSIGN(
      HandedOutReport report,
      FindHandedOut(parts_, records, is_callers ? record->cgroup : 0));
  for (HandedOutReport::Descriptor& one : report.descriptors) {
    access_.HideOthers(call, &one.holders);
  }
  report.complete = hello.has_unique_mount_ids != 0;
  return report;
}

Result<TaskReport> TaskVerbs::VerifyTask(const CallContext& call,
                                         const Name& allocation,
                                         const Name& task,
                                         const UniqueFd& pidfd) {
  MOUNTD_ASSIGN(const AllocationRecord record,
                access_.Find(call, allocation.str()));
  std::uint64_t cgroup = record.cgroup;
  if (cgroup == 0) {
    MOUNTD_ASSIGN(const exec::CgroupState state,
                  parts_.executor.InspectTask(pidfd.get()));
    MOUNTD_TRY(
        access_.PolicyFor(call).MayUseCgroup(call.caller, state.path.data()));
    cgroup = state.id;
  }
  MOUNTD_ASSIGN(std::vector<MountRecord> mounts,
                parts_.boot.mounts.MountsOf(allocation.str()));
  std::erase_if(mounts, [&](const MountRecord& mount) {
    return mount.task != task.str() || !IsOnHost(mount);
  });
  TaskReport report;
  // Run the plan once even without mounts, to check that the process may be
  // looked at.
  std::span<const MountRecord> left = mounts;
  do {
    const auto some = left.first(std::min(left.size(), exec::kMaxTaskMounts));
    left = left.subspan(some.size());
    exec::VerifyTaskPlan plan;
    plan.cgroup = cgroup;
    for (const MountRecord& mount : some) {
      plan.mount_ids.at(plan.count++) = mount.mount_id;
    }
    MOUNTD_ASSIGN(const exec::TaskState state,
                  parts_.executor.VerifyTask(plan, pidfd.get()));
    report.mount_namespace = state.mount_namespace;
    report.has_own_user_namespace = state.has_own_user_namespace != 0;
    for (std::size_t i = 0; i < some.size(); ++i) {
      report.mounts.push_back(
          Judge(some[i], state.mounts.at(i), report.has_own_user_namespace));
    }
  } while (!left.empty());
  return report;
}

}  // namespace mountd
