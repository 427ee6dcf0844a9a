// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/kernel/kernel.h"

namespace mountd::exec {

// Runs `commands`, all or none, through libnftables in this thread's network
// namespace. EINVAL if libnftables sets no errno. Drops its error texts,
// because mountd itself wrote the commands.
Sys<void> RunNftCommand(const std::string& commands);

}  // namespace mountd::exec
