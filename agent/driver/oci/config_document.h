// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/driver/task_config.h"
#include "mountd/base/result.h"

namespace mountd::driver {

// Returns the SHA-256 of all members of the configuration. Two configurations
// are the same request exactly if they have the same digest.
std::string DigestOf(const TaskConfig& config);

// InvalidArgument names a limit that the kernel would refuse.
Result<void> CheckResources(const TaskResources& resources);

// Checks what the driver can know before it makes anything. InvalidArgument
// with the member; NotSupported for a part that no rootless container has.
Result<void> CheckConfig(const TaskConfig& config);

}  // namespace mountd::driver
