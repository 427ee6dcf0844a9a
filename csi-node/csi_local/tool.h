// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi_local {

// What a tool calls the file it is handed.
inline constexpr char kToolFile[] = "/proc/self/fd/3";

// Runs a program of /usr/sbin or /sbin that belongs to root alone, confined
// (tool_sandbox.h), with no environment but PATH and LC_ALL, nothing to read,
// and `file`, an image, as its fd 3 (kToolFile). Its stderr is ours. Answers
// the exit status; NotSupported if there is no such program, DeadlineExceeded
// if it was killed because it took longer than ten minutes, Internal if
// something else killed it.
Result<int> RunTool(const std::string& name,
                    const std::vector<std::string>& arguments,
                    const UniqueFd& file);

}  // namespace mountd::csi_local
