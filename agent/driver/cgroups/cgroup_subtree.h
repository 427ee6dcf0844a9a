// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <set>
#include <string>
#include <vector>

#include "agent/driver/cgroups/task_cgroup.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {

// Owns the directory of a cgroup that somebody delegated to the agent, such as
// a unit with Delegate=yes (cgroups(7), "Delegation"). Any thread.
class CgroupSubtree {
 public:
  // The leaf that keeps the agent's own processes.
  static constexpr char kAgentLeaf[] = "agent";

  // Opens the directory. Moves the processes in it to the leaf, because a
  // cgroup with processes gives no controller to its children. Enables each of
  // memory, cpu, cpuset and pids that the kernel offers here. A repeated call
  // succeeds, too. NotFound if the directory is no cgroup of version 2.
  // PermissionDenied if the directory is not delegated.
  static Result<CgroupSubtree> Open(const std::string& path);

  // The controllers that tasks have.
  const std::set<std::string>& controllers() const { return controllers_; }
  // The controllers that tasks do not have, each with the reason. People read
  // this list in the fingerprint.
  const std::vector<std::string>& left_out() const { return left_out_; }

  // Makes the cgroup of a task, or opens the task's existing cgroup.
  // InvalidArgument unless `name` is a name (mountd/base/names.h) other than
  // that of the leaf.
  Result<TaskCgroup> Make(const std::string& name) const;
  // Opens the cgroup of a task. NotFound if there is none.
  Result<TaskCgroup> Find(const std::string& name) const;
  // Kills all processes of a task's cgroup and of those beneath it, and removes
  // these cgroups. Success if there is none. DeadlineExceeded if a process does
  // not end.
  Result<void> Remove(const std::string& name,
                      std::chrono::milliseconds patience) const;

  // As Find and Remove, but by the path of a task's cgroup, which may be in
  // another subtree. FindAt: NotFound if there is no such cgroup. RemoveAt:
  // true if there was such a cgroup.
  static Result<TaskCgroup> FindAt(const std::string& path);
  static Result<bool> RemoveAt(const std::string& path,
                               std::chrono::milliseconds patience);

 private:
  explicit CgroupSubtree(UniqueFd directory)
      : directory_(std::move(directory)) {}
  Result<void> MoveProcesses() const;
  Result<void> EnableControllers();

  UniqueFd directory_;
  std::set<std::string> controllers_;
  std::vector<std::string> left_out_;
};

}  // namespace mountd::driver
