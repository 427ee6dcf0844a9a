// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/unique_fd.h"

namespace mountd::cni {

// Owns a cgroup for the plugins of one run, beneath the runner's. A plugin's
// descendants cannot leave this cgroup by forking, and one write kills them
// all, even in a later run after this runner was killed.
//
// The cgroup exists only where systemd has delegated the runner's cgroup to its
// service (Delegate=yes; systemd's CGROUP_DELEGATION.md describes the mark),
// because anywhere else another program arranges the cgroups. Without a cgroup,
// and whenever something fails, these functions do nothing, and descendants.h
// does the work alone.
class PluginCgroup {
 public:
  // Makes an object without a cgroup.
  PluginCgroup() = default;

  // Removes cgroups whose runner and worker are gone, then makes "cni-<pid of
  // this process>".
  static PluginCgroup Make();

  bool exists() const { return directory_.valid(); }

  // Moves the calling process into the cgroup.
  void Enter() const;

  // Kills all processes in the cgroup (cgroup.kill, Linux 5.14; on older
  // kernels each listed process).
  void Kill() const;

  // Kills all processes in the cgroup and removes it as soon as they are gone.
  // A process that is stuck in the kernel keeps the cgroup, and a later run
  // removes it. May be called again, and by any process forked since.
  void End() const;

 private:
  PluginCgroup(UniqueFd parent, UniqueFd directory, std::string name);

  UniqueFd parent_;
  // Locked (flock(2)) while this process or one that it forked has it. Other
  // runners go by the lock and not by the pid, because the pid may be another
  // process's by now.
  UniqueFd directory_;
  std::string name_;
};

}  // namespace mountd::cni
