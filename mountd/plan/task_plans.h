// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mountd/plan/values.h"

// The plans that look at a task's cgroup and at its view of mounts, and the
// plan that stops tasks.
namespace mountd::exec {

// A cgroup (version 2), named by the inode number of its directory. The kernel
// does not use this number again during this boot. The cgroup must lie at or
// beneath a path that some rule of the root-owned config grants.
struct CgroupPlan {
  std::uint64_t id = 0;
};

// Looks at the mounts of `mount_ids` as the task of the pidfd beside the plan
// sees them. The task must be in `cgroup` or beneath.
inline constexpr std::size_t kMaxTaskMounts = 64;
struct VerifyTaskPlan {
  std::uint64_t cgroup = 0;
  std::uint32_t count = 0;
  std::array<std::uint64_t, kMaxTaskMounts> mount_ids{};
};

// Stops all processes of `cgroup` and beneath it, and waits at most `budget_ms`
// until they have stopped. Unless the cgroup has no processes, a rule of
// `owner` must grant the cgroup, with a `stop_tasks` that includes `how`.
// `owner` is the user whose lease has lapsed. `how` is not kNo.
struct StopTasksPlan {
  std::uint64_t cgroup = 0;
  TaskStop how = TaskStop::kNo;
  std::uint32_t budget_ms = 0;
  CallerPlan owner{};
};
inline constexpr std::uint32_t kMaxStopBudgetMs = 60'000;

struct StopTasksState {
  std::uint32_t had_processes = 0;  // 1: when the plan began
};

inline constexpr std::size_t kMaxCgroupPath = 1024;

struct CgroupState {
  std::uint64_t id = 0;
  std::array<char, kMaxCgroupPath> path{};  // "/nomad.slice/web", with a NUL
  std::uint64_t mount_namespace = 0;        // InspectTask only: its inode
};

// One of mountd's mounts, and the task's mount that shows it, if any.
struct TaskMount {
  std::uint32_t exists_on_host = 0;  // 1: still attached here
  std::uint32_t found = 0;
  std::uint32_t covered = 0;     // the task has another mount on top of it
  std::uint64_t attributes = 0;  // MOUNT_ATTR_*
  std::uint64_t peer_group = 0;
  std::uint64_t master = 0;
};

struct TaskState {
  std::uint64_t mount_namespace = 0;         // inode
  std::uint32_t has_own_user_namespace = 0;  // 1: that owns the mount namespace
  std::uint32_t count = 0;
  std::array<TaskMount, kMaxTaskMounts> mounts{};
};

}  // namespace mountd::exec
