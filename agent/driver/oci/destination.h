// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "agent/driver/bundle/mounts.h"
#include "mountd/base/result.h"

namespace mountd::driver {

// Returns where a path of the task leads by the image's symlinks, in the
// image's own root. A part that the image does not have stays as it is, because
// the runtime makes it. InvalidArgument for too many symlinks.
Result<std::string> FollowInImage(int rootfs, const std::string& path);

// Refuses a mount's destination that leads by the image's symlinks to a place
// that no mount may cover, such as /proc. The runtime follows these symlinks.
Result<void> CheckDestinationInImage(int rootfs,
                                     const std::string& destination);

// Refuses a destination that passes through a symlink in another mount. A task
// can make such symlinks, for example in its directory local/, and the runtime
// follows them at the next start.
Result<void> CheckDestinationsInMounts(int rootfs,
                                       const std::vector<TaskMount>& mounts);

}  // namespace mountd::driver
