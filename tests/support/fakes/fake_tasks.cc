// SPDX-License-Identifier: LGPL-2.1-or-later
// FakeExecutor's tasks: cgroups, users of a mount, the mounts that a task sees.
#include <algorithm>
#include <optional>
#include <span>

#include "mountd/base/paths.h"
#include "tests/support/fakes/fake_executor.h"

namespace mountd::exec {
namespace {

constexpr std::uint64_t kTaskNamespace = 4026532000;

}  // namespace

void FakeExecutor::PutCgroup(std::uint64_t id, const std::string& path) {
  const std::lock_guard lock(mutex_);
  cgroups_[id] = path;
}

void FakeExecutor::AddHolder(std::uint64_t mount_id, const Holder& holder,
                             std::uint64_t cgroup) {
  const std::lock_guard lock(mutex_);
  uses_.push_back({mount_id, cgroup, holder, 0});
}

void FakeExecutor::AddToNamespace(std::uint64_t netns_inode,
                                  const Holder& holder) {
  const std::lock_guard lock(mutex_);
  uses_.push_back({0, 0, holder, netns_inode});
}

void FakeExecutor::EndProcesses() {
  const std::lock_guard lock(mutex_);
  uses_.clear();
  copies_.clear();
}

void FakeExecutor::AddCopy(std::uint64_t mount_id, const std::string& plugin,
                           const Holder& holder, std::uint64_t cgroup) {
  const std::lock_guard lock(mutex_);
  copies_.push_back({mount_id, plugin, cgroup, holder});
}

void FakeExecutor::SetBlind(bool blind) {
  const std::lock_guard lock(mutex_);
  blind_ = blind;
}

void FakeExecutor::SetTask(std::uint64_t cgroup, bool own_user_namespace) {
  const std::lock_guard lock(mutex_);
  task_cgroup_ = cgroup;
  task_has_user_namespace_ = own_user_namespace;
}

void FakeExecutor::SetTaskMount(std::uint64_t mount_id, const TaskMount& seen) {
  const std::lock_guard lock(mutex_);
  task_mounts_[mount_id] = seen;
}

Result<CgroupState> FakeExecutor::CgroupLocked(std::uint64_t id) const {
  const auto found = cgroups_.find(id);
  if (found == cgroups_.end()) {
    return MakeError(Code::kNotFound, "open_by_handle_at",
                     "cgroup " + std::to_string(id), "is gone");
  }
  CgroupState state;
  state.id = id;
  std::copy(found->second.begin(), found->second.end(), state.path.begin());
  return state;
}

Result<CgroupState> FakeExecutor::InspectCgroup(const CgroupPlan& plan) {
  PlanBody body;
  body.cgroup = plan;
  return Run<Result<CgroupState>>(PlanKind::kInspectCgroup, "InspectCgroup",
                                  std::to_string(plan.id), body,
                                  [&] { return CgroupLocked(plan.id); });
}

namespace {

// Returns the index of the mount in the plan's list.
std::optional<std::uint32_t> PlaceIn(const HoldersPlan& plan,
                                     std::uint64_t mount_id) {
  for (std::uint32_t i = 0; i < plan.count; ++i) {
    if (plan.handed_out.at(i).mount_id == mount_id) {
      return i;
    }
  }
  return plan.count == 0 && plan.mount_id == mount_id ? std::optional(0U)
                                                      : std::nullopt;
}

}  // namespace

Result<HoldersState> FakeExecutor::FindHolders(const HoldersPlan& plan) {
  PlanBody body;
  body.holders = plan;
  return Run<Result<HoldersState>>(
      PlanKind::kFindHolders, "FindHolders", std::to_string(plan.mount_id),
      body, [&]() -> Result<HoldersState> {
        if (plan.cgroup != 0) {
          MOUNTD_TRY(CgroupLocked(plan.cgroup));
        }
        HoldersState state;
        for (const Use& use : uses_) {
          const bool in_cgroup = plan.cgroup != 0 && use.cgroup == plan.cgroup;
          const std::optional<std::uint32_t> place =
              PlaceIn(plan, use.mount_id);
          if (!place || (plan.scope == HolderScope::kCgroup && !in_cgroup)) {
            continue;
          }
          state.held |= std::uint64_t{1} << *place;
          if (state.count == kMaxHolders) {
            state.more = 1;
            continue;
          }
          Holder& holder = state.holders.at(state.count++);
          holder = use.holder;
          holder.mount = *place;
          holder.in_cgroup = in_cgroup ? 1 : 0;
        }
        state.incomplete = blind_ ? 1 : 0;
        return state;
      });
}

Result<CopiesState> FakeExecutor::FindCopies(const CopiesPlan& plan) {
  PlanBody body;
  body.copies = plan;
  return Run<Result<CopiesState>>(
      PlanKind::kFindCopies, "FindCopies",
      plan.has_volume != 0 ? Text(plan.volume.plugin)
                           : std::to_string(plan.mount_ids[0]),
      body, [&]() -> Result<CopiesState> {
        CopiesState state;
        if (plan.has_volume != 0) {
          state.found = plan.before;
          state.found.device = 1;
        }
        const auto ids = std::span(plan.mount_ids).first(plan.count);
        for (const Copy& copy : copies_) {
          const bool in_cgroup = plan.cgroup != 0 && copy.cgroup == plan.cgroup;
          const bool is_meant = plan.has_volume != 0
                                    ? copy.plugin == Text(plan.volume.plugin)
                                    : std::find(ids.begin(), ids.end(),
                                                copy.mount_id) != ids.end();
          if (!is_meant || (plan.scope == HolderScope::kCgroup && !in_cgroup)) {
            continue;
          }
          Holder& holder = state.holders.holders.at(state.holders.count++);
          holder = copy.holder;
          holder.kind = HolderKind::kMount;
          holder.is_copy = 1;
          holder.in_cgroup = in_cgroup ? 1 : 0;
        }
        const bool looks = plan.scope == HolderScope::kNode || plan.cgroup != 0;
        state.holders.incomplete = blind_ && looks ? 1 : 0;
        return state;
      });
}

Result<HoldersState> FakeExecutor::FindProcesses(const ProcessesPlan& plan) {
  PlanBody body;
  body.processes = plan;
  return Run<Result<HoldersState>>(
      PlanKind::kFindProcesses, "FindProcesses", std::to_string(plan.cgroup),
      body, [&]() -> Result<HoldersState> {
        if (plan.cgroup != 0) {
          MOUNTD_TRY(CgroupLocked(plan.cgroup));
        }
        HoldersState state;
        for (const Use& use : uses_) {
          const bool in_cgroup = plan.cgroup != 0 && use.cgroup == plan.cgroup;
          const bool in_netns =
              plan.netns_inode != 0 && use.netns_inode == plan.netns_inode;
          if ((in_cgroup || in_netns) && state.count < kMaxHolders) {
            Holder& holder = state.holders.at(state.count++);
            holder = use.holder;
            holder.kind =
                in_cgroup ? HolderKind::kMember : HolderKind::kNetwork;
            holder.in_cgroup = in_cgroup ? 1 : 0;
          }
        }
        state.incomplete = blind_ ? 1 : 0;
        return state;
      });
}

Result<StopTasksState> FakeExecutor::StopTasks(const StopTasksPlan& plan) {
  PlanBody body;
  body.stop_tasks = plan;
  return Run<Result<StopTasksState>>(
      PlanKind::kStopTasks, "StopTasks", std::to_string(plan.cgroup), body,
      [&]() -> Result<StopTasksState> {
        MOUNTD_TRY(CgroupLocked(plan.cgroup));
        StopTasksState state;
        const auto is_in = [&](const auto& one) {
          return one.cgroup == plan.cgroup;
        };
        const bool uses = std::any_of(uses_.begin(), uses_.end(), is_in);
        const bool copies = std::any_of(copies_.begin(), copies_.end(), is_in);
        state.had_processes = uses || copies ? 1 : 0;
        if (plan.how == TaskStop::kKill) {
          std::erase_if(uses_, is_in);
          std::erase_if(copies_, is_in);
        }
        return state;
      });
}

Result<CgroupState> FakeExecutor::InspectTask(int /*pidfd*/) {
  return Run<Result<CgroupState>>(
      PlanKind::kInspectTask, "InspectTask", "", PlanBody(),
      [&]() -> Result<CgroupState> {
        if (task_cgroup_ == 0) {
          return MakeError(Code::kFailedPrecondition, "open process", "pidfd",
                           "the process has ended");
        }
        MOUNTD_ASSIGN(CgroupState state, CgroupLocked(task_cgroup_));
        state.mount_namespace = kTaskNamespace;
        return state;
      });
}

Result<TaskState> FakeExecutor::VerifyTask(const VerifyTaskPlan& plan,
                                           int /*pidfd*/) {
  PlanBody body;
  body.verify_task = plan;
  return Run<Result<TaskState>>(
      PlanKind::kVerifyTask, "VerifyTask", std::to_string(plan.cgroup), body,
      [&]() -> Result<TaskState> {
        MOUNTD_ASSIGN(const CgroupState allowed, CgroupLocked(plan.cgroup));
        if (task_cgroup_ == 0 || !cgroups_.contains(task_cgroup_) ||
            !paths::IsAtOrBelow(cgroups_.at(task_cgroup_),
                                allowed.path.data())) {
          return MakeError(Code::kFailedPrecondition, "open process", "pidfd",
                           "the process is in another cgroup");
        }
        TaskState state;
        state.mount_namespace = kTaskNamespace;
        state.has_own_user_namespace = task_has_user_namespace_ ? 1 : 0;
        for (; state.count < plan.count; ++state.count) {
          const std::uint64_t id = plan.mount_ids.at(state.count);
          TaskMount& seen = state.mounts.at(state.count);
          if (const auto found = task_mounts_.find(id);
              found != task_mounts_.end()) {
            seen = found->second;
          }
          seen.exists_on_host =
              std::any_of(mounts_.begin(), mounts_.end(),
                          [&](const auto& entry) {
                            return entry.second.state.mount_id == id;
                          })
                  ? 1
                  : 0;
        }
        return state;
      });
}

}  // namespace mountd::exec
