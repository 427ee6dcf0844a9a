// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "agent/driver/exec_stream.h"

namespace mountd::driver {

// Runs one command by the high-level form for a caller who has a stream of
// messages. Receives on one thread and sends on another, and joins both before
// it returns. Input that the command does not read makes later messages wait.
// Contract as of ExecTaskStreamingRaw.
Result<void> RawOverExec(StreamingExec& driver, const std::string& task_id,
                         const std::vector<std::string>& command, bool terminal,
                         RawExecStream& stream);

}  // namespace mountd::driver
