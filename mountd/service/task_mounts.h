// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mountd/plan/message.h"
#include "mountd/store/records.h"

// Checks whether a running task has its mounts as mountd made them, because
// container runtimes lose propagation without an error.
namespace mountd {

struct TaskMountVerdict {
  std::string name;
  // "ok", "missing", "covered", "weaker", "lost-propagation", "gone"
  std::string verdict;
  std::string reason;  // "" for "ok"
  // MOUNT_ATTR_* as found; so are the next two members.
  std::uint64_t attributes = 0;
  std::uint64_t peer_group = 0;
  std::uint64_t master = 0;
};

struct TaskReport {
  std::vector<TaskMountVerdict> mounts;
  std::uint64_t mount_namespace = 0;  // inode
  bool has_own_user_namespace = false;

  bool ok() const;
};

TaskMountVerdict Judge(const MountRecord& record, const exec::TaskMount& seen,
                       bool has_own_user_namespace);

}  // namespace mountd
