// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <vector>

#include "mountd/base/result.h"

namespace mountd {

// A change of one mount in the watched namespace.
struct MountEvent {
  std::uint64_t mount_id = 0;
  bool attached = false;
  bool detached = false;  // both: the mount was moved
};

struct MountEvents {
  std::vector<MountEvent> events;  // in their order
  bool overflowed = false;         // some are missing
};

// Reads all queued events of a fanotify group with FAN_REPORT_MNT (Linux 6.15).
// Never blocks. Needs no right but the fd.
Result<MountEvents> ReadMountEvents(int group);

}  // namespace mountd
