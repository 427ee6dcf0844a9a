// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "agent/driver/task_driver.h"
#include "mountd/base/result.h"

namespace mountd::agent {

// Returns the exit code, or 128 and the signal, as a shell does.
int ExitStatusOf(const driver::ExitResult& result);

// Prints the error of a command in a task, and returns its exit status, as
// other programs that run containers have it: 127 for a command that is not
// found, 126 for one that cannot be executed, 125 for all else.
int FailToRun(const Error& error);

// Runs the command with mountctl's own streams, and returns its ExitStatusOf.
// With both flags, stdin's terminal is in raw mode during the call, and is
// restored in every case. With `terminal` alone, mountctl only follows the
// terminal's size. With `terminal`, InvalidArgument if stdin is no terminal.
Result<int> ExecInTask(driver::TaskDriver& driver, const std::string& id,
                       const std::vector<std::string>& command,
                       bool interactive, bool terminal);

}  // namespace mountd::agent
