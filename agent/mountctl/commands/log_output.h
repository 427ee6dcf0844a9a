// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/tasks/job_directory.h"

namespace mountd::agent {

struct LogChoice {
  bool standard_error = false;
  std::optional<std::uint64_t> tail_lines{};
  bool follow = false;
};

// Copies a stream of the task's log to `fd`, as it is. While the reader
// follows, calls `ended` again and again. Once `ended` returns true, copies the
// rest of the log and returns.
Result<void> CopyLog(const Context& context, const TaskRecord& record,
                     const LogChoice& choice, int fd,
                     const std::function<bool()>& ended);

}  // namespace mountd::agent
