// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <vector>

#include "agent/driver/bundle/mounts.h"
#include "agent/driver/task_config.h"
#include "mountd/base/result.h"

namespace mountd::driver {

// Returns the devices that the container gets. A device is a node of the host,
// named by a path without symlinks. The user must be allowed to open the node
// with exactly these permissions: as its owner, by the user's main group, or as
// anybody. InvalidArgument for another file. PermissionDenied for a node that
// the user may not open with these permissions. NotSupported for "m", and for a
// node that the user may open with more permissions.
Result<std::vector<TaskDevice>> DevicesOf(const std::vector<Device>& devices);

}  // namespace mountd::driver
