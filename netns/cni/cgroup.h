// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/unique_fd.h"

namespace mountd::cni {

// A cgroup of its own for the plugins of one run, beneath the runner's: what
// they start cannot leave it by any fork, and dies with one write, even if the
// runner was killed and could not see to it.
//
// There is one only where systemd has delegated the runner's cgroup to its
// service (Delegate=yes; the mark on it is in systemd's CGROUP_DELEGATION.md):
// anywhere else the cgroups are somebody else's to arrange. Without one, and
// whenever something fails, all here does nothing: descendants.h goes without.
class PluginCgroup {
 public:
  // Without one.
  PluginCgroup() = default;

  // Makes "cni-<pid of this process>", after it has removed those whose runner
  // and its worker are gone.
  static PluginCgroup Make();

  bool exists() const { return directory_.valid(); }

  // Moves the calling process into it.
  void Enter() const;

  // Kills all that is in it (cgroup.kill, Linux 5.14; before, each process that
  // it lists).
  void Kill() const;

  // Kills all that is in it and removes it, as soon as what dies is gone. What
  // is stuck in the kernel keeps it; a later run removes it. May be called
  // again, and by whichever process was forked since.
  void End() const;

 private:
  PluginCgroup(UniqueFd parent, UniqueFd directory, std::string name);

  UniqueFd parent_;
  // Locked (flock(2)) as long as this process or one that it forked has it: so
  // whether the runner lives does not hang on a pid, which another may have by
  // now.
  UniqueFd directory_;
  std::string name_;
};

}  // namespace mountd::cni
