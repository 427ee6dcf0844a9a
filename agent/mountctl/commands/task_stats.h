// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "agent/mountctl/commands/commands.h"

namespace mountd::agent {

// Adds `stats` to the command `task`.
void AddTaskStats(CLI::App& parent, Context& context);

}  // namespace mountd::agent
