// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/exec/kernel.h"

namespace mountd::netns {

// Runs `commands`, all or none, through libnftables in this thread's network
// namespace. EINVAL if it says no more; its texts are dropped, as the commands
// are this project's own.
exec::Sys<void> RunNftCommand(const std::string& commands);

}  // namespace mountd::netns
