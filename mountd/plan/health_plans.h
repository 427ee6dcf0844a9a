// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>

#include "mountd/plan/mount_plans.h"
#include "mountd/plan/plugin_plans.h"
#include "mountd/plan/values.h"

// The plans about presence and health of mounts, and their replies.
namespace mountd::exec {

// Probes the mount at `target`. NotFound unless that mount is `mount_id`.
struct ProbePlan {
  TargetPlan target;
  std::uint64_t mount_id = 0;
};

// Probes a directory that a plugin published; `mount_id` 0: it is no mount.
struct VolumeProbePlan {
  VolumeDirPlan directory;
  std::uint64_t mount_id = 0;
};

// The answer's fd reports mounts and unmounts in the executor's mount
// namespace, to any process that has the fd, as long as it is open.
struct WatchReply {
  // 1: a fanotify group (Linux 6.15). 0: mountinfo, with POLLPRI after a
  // change.
  std::uint32_t tells_ids = 0;
};

// The answer's fd holds the ids of all mounts in the mount namespace of the
// base, 8 bytes each. CountMounts sets only `count`.
struct MountListReply {
  std::uint64_t count = 0;
  std::uint64_t most = 0;  // fs.mount-max
};

struct ProbeReply {
  MountHealth health = MountHealth::kUnknown;
  std::int32_t sys_errno = 0;  // kDead
  // Children of this executor that were killed and have not ended yet.
  std::uint32_t lost_children = 0;
};

}  // namespace mountd::exec
