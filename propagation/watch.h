// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/context.h"

namespace mountd::propagation {

// Something that can be polled for what is mounted and unmounted in the
// executor's mount namespace. To read it needs no right, and it outlives the
// executor. From Linux 6.15 a fanotify group that tells which mounts by their
// ids; before, mountinfo, which is POLLPRI when anything has changed.
struct MountWatch {
  UniqueFd fd;
  bool tells_ids = false;
};
Result<MountWatch> WatchMounts(const Context& context);

// All mounts of the executor's mount namespace: their ids, 8 bytes each in a
// memfd, how many these are, and how many there may be (fs.mount-max).
struct MountList {
  UniqueFd ids;
  std::uint64_t count = 0;
  std::uint64_t most = 0;
};
Result<MountList> ListMounts(const Context& context);

// How many mounts lie below the plugin's directory, at whatever depth. NotFound
// if that was not prepared.
Result<std::uint64_t> CountMounts(const Context& context,
                                  const exec::PluginPlan& plan);

}  // namespace mountd::propagation
