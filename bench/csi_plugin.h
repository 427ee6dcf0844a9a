// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/client.h"
#include "tests/csi/process.h"

namespace mountd::bench {

// Starts a csi-local that makes a volume when the volume is staged.
testing::Process StartCsiLocal(const std::string& socket,
                               const std::string& data);

// Registers "local" and starts a csi-local for it. Returns when the plugin is
// healthy.
Result<testing::Process> HavePlugin(agent::Client& client);
Result<void> AwaitHealthy(agent::Client& client,
                          const std::string& plugin = "local");

}  // namespace mountd::bench
