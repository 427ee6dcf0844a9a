// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/driver/exec_stream.h"

namespace mountd::driver {

// Runs one command by the raw form for a caller who has fds. Reads stdin and
// the sizes on threads of its own, and joins them before it returns. Errors as
// of ExecTaskStreaming; Internal if the driver sends no exit result.
Result<ExitResult> ExecOverRaw(RawStreamingExec& driver,
                               const std::string& task_id,
                               const ExecOptions& options);

}  // namespace mountd::driver
