// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/cgroups/cgroup_subtree.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "agent/driver/cgroups/cgroup_files.h"
#include "mountd/base/names.h"

namespace mountd::driver {
namespace {

// Processes may fork during the move, so each round moves those that the round
// before has left.
constexpr int kMoveRounds = 16;
// A container's cgroups are nested as deep as the container likes.
constexpr int kMostLevels = 64;

bool IsGone(const Error& error) { return error.sys_errno == ESRCH; }

Result<void> CheckTaskName(const std::string& name) {
  MOUNTD_TRY(Name::Parse("cgroup", name));
  if (name == CgroupSubtree::kAgentLeaf) {
    return MakeError(Code::kInvalidArgument, "cgroup", name,
                     "the agent's own processes have this cgroup");
  }
  return Ok();
}

Result<std::vector<std::string>> ChildrenOf(const UniqueFd& cgroup) {
  const int copy =
      ::openat(cgroup.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(
      copy < 0 ? nullptr : ::fdopendir(copy), ::closedir);
  if (!listing) {
    return ErrnoError(errno, "fdopendir", "");
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..") {
      names.push_back(name);
    }
  }
  return names;
}

// Removes the cgroups beneath `cgroup`. The caller has ended all their
// processes.
Result<void> RemoveBeneath(const UniqueFd& cgroup, int levels) {
  if (levels == 0) {
    return MakeError(Code::kFailedPrecondition, "cgroup", "",
                     "the cgroups are nested more than 64 deep");
  }
  MOUNTD_ASSIGN(const std::vector<std::string> names, ChildrenOf(cgroup));
  for (const std::string& name : names) {
    MOUNTD_ASSIGN(const UniqueFd child, OpenCgroup(cgroup.get(), name));
    MOUNTD_TRY(RemoveBeneath(child, levels - 1));
    if (::unlinkat(cgroup.get(), name.c_str(), AT_REMOVEDIR) != 0 &&
        errno != ENOENT) {
      return ErrnoError(errno, "rmdir", name);
    }
  }
  return Ok();
}

Result<void> AwaitEmpty(const TaskCgroup& task, const std::string& name,
                        std::chrono::milliseconds patience) {
  constexpr int kRoundMs = 5;
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    MOUNTD_ASSIGN(const bool populated, task.IsPopulated());
    if (!populated) {
      return Ok();
    }
    if (std::chrono::steady_clock::now() >= end) {
      return MakeError(Code::kDeadlineExceeded, "cgroup.kill", name,
                       "a process of the task does not end; call again");
    }
    ::poll(nullptr, 0, kRoundMs);
    // Kills processes that joined the cgroup after the last kill.
    MOUNTD_TRY(task.Kill());
  }
}

Result<UniqueFd> OpenParent(const std::string& path) {
  const std::string parent = path.substr(0, path.rfind('/'));
  UniqueFd directory(
      ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return directory.valid() ? Result<UniqueFd>(std::move(directory))
                           : ErrnoError(errno, "open", parent);
}

std::string NameOf(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// Kills all processes of the cgroup, and removes it. False if there was no such
// cgroup.
Result<bool> RemoveFrom(const UniqueFd& parent, const std::string& name,
                        std::chrono::milliseconds patience) {
  MOUNTD_TRY(CheckTaskName(name));
  Result<UniqueFd> directory = OpenCgroup(parent.get(), name);
  if (!directory && directory.error().code == Code::kNotFound) {
    return false;
  }
  if (!directory) {
    return directory.error();
  }
  const TaskCgroup task(std::move(directory).value());
  MOUNTD_ASSIGN(const UniqueFd beneath, OpenCgroup(parent.get(), name));
  MOUNTD_TRY(task.Kill());
  MOUNTD_TRY(AwaitEmpty(task, name, patience));
  MOUNTD_TRY(RemoveBeneath(beneath, kMostLevels));
  if (::unlinkat(parent.get(), name.c_str(), AT_REMOVEDIR) != 0 &&
      errno != ENOENT) {
    return ErrnoError(errno, "rmdir", name);
  }
  return true;
}

}  // namespace

Result<CgroupSubtree> CgroupSubtree::Open(const std::string& path) {
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) {
    return ErrnoError(errno, "open", path);
  }
  if (!HasCgroupFile(directory, "cgroup.controllers") ||
      !HasCgroupFile(directory, "cgroup.subtree_control")) {
    return MakeError(Code::kNotFound, "cgroup", path,
                     "the directory is no cgroup of version 2");
  }
  CgroupSubtree subtree(std::move(directory));
  MOUNTD_TRY(subtree.MoveProcesses());
  MOUNTD_TRY(subtree.EnableControllers());
  return subtree;
}

Result<void> CgroupSubtree::MoveProcesses() const {
  if (::mkdirat(directory_.get(), kAgentLeaf, 0755) != 0 && errno != EEXIST) {
    return ErrnoError(errno, "mkdir", kAgentLeaf,
                      "the cgroup is not delegated to this user; a unit "
                      "delegates it with Delegate=yes");
  }
  MOUNTD_ASSIGN(const UniqueFd leaf, OpenCgroup(directory_.get(), kAgentLeaf));
  for (int round = 0; round < kMoveRounds; ++round) {
    MOUNTD_ASSIGN(const std::string text,
                  ReadCgroupFile(directory_, "cgroup.procs"));
    const std::vector<std::string> processes = WordsOfText(text);
    if (processes.empty()) {
      return Ok();
    }
    for (const std::string& process : processes) {
      const Result<void> moved = WriteCgroupFile(leaf, "cgroup.procs", process);
      if (!moved && !IsGone(moved.error())) {
        return moved.error();
      }
    }
  }
  return MakeError(Code::kBusy, "cgroup.procs", "",
                   "processes appear in the cgroup faster than they are moved "
                   "to its leaf; start nothing in it and call again");
}

Result<void> CgroupSubtree::EnableControllers() {
  MOUNTD_ASSIGN(const std::string text,
                ReadCgroupFile(directory_, "cgroup.controllers"));
  const std::vector<std::string> there = WordsOfText(text);
  for (const char* wanted : {"cpu", "cpuset", "memory", "pids"}) {
    if (std::find(there.begin(), there.end(), wanted) == there.end()) {
      left_out_.push_back(std::string(wanted) + ": not delegated");
      continue;
    }
    const Result<void> enabled = WriteCgroupFile(
        directory_, "cgroup.subtree_control", std::string("+") + wanted);
    if (enabled) {
      controllers_.insert(wanted);
    } else {
      left_out_.push_back(std::string(wanted) + ": " +
                          enabled.error().Message());
    }
  }
  return Ok();
}

Result<TaskCgroup> CgroupSubtree::Make(const std::string& name) const {
  MOUNTD_TRY(CheckTaskName(name));
  if (::mkdirat(directory_.get(), name.c_str(), 0755) != 0 && errno != EEXIST) {
    return ErrnoError(errno, "mkdir", name);
  }
  return Find(name);
}

Result<TaskCgroup> CgroupSubtree::Find(const std::string& name) const {
  MOUNTD_TRY(CheckTaskName(name));
  MOUNTD_ASSIGN(UniqueFd directory, OpenCgroup(directory_.get(), name));
  return TaskCgroup(std::move(directory));
}

Result<void> CgroupSubtree::Remove(const std::string& name,
                                   std::chrono::milliseconds patience) const {
  MOUNTD_TRY(RemoveFrom(directory_, name, patience));
  return Ok();
}

Result<TaskCgroup> CgroupSubtree::FindAt(const std::string& path) {
  MOUNTD_ASSIGN(const UniqueFd parent, OpenParent(path));
  MOUNTD_ASSIGN(UniqueFd directory, OpenCgroup(parent.get(), NameOf(path)));
  return TaskCgroup(std::move(directory));
}

Result<bool> CgroupSubtree::RemoveAt(const std::string& path,
                                     std::chrono::milliseconds patience) {
  const auto parent = OpenParent(path);
  if (!parent && parent.error().code == Code::kNotFound) {
    return false;
  }
  if (!parent) {
    return parent.error();
  }
  return RemoveFrom(*parent, NameOf(path), patience);
}

}  // namespace mountd::driver
