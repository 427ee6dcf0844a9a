// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/plan/health_plans.h"
#include "propagation/ground/context.h"

namespace mountd::propagation {

// A descriptor to poll for mounts and unmounts in the executor's mount
// namespace. Reading it needs no right, and it outlives the executor. From
// Linux 6.15 it is a fanotify group, which reports the mounts' ids. On older
// kernels it is mountinfo, which polls as POLLPRI after any change.
struct MountWatch {
  UniqueFd fd;
  bool tells_ids = false;
};
Result<MountWatch> WatchMounts(const Context& context);

// The ids of all mounts of the executor's mount namespace, 8 bytes each in a
// memfd, their number, and the most there may be (fs.mount-max).
struct MountList {
  UniqueFd ids;
  std::uint64_t count = 0;
  std::uint64_t most = 0;
};
Result<MountList> ListMounts(const Context& context);

// Returns the number of mounts below the plugin's directory, at any depth.
// NotFound if no plan prepared the directory.
Result<std::uint64_t> CountMounts(const Context& context,
                                  const exec::PluginPlan& plan);

}  // namespace mountd::propagation
