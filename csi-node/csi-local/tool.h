// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi_local {

// The path by which a tool opens its file.
inline constexpr char kToolFile[] = "/proc/self/fd/3";

// Runs a program of /usr/sbin or /sbin that only root can write, confined
// (tool_sandbox.h). The program gets no environment but PATH and LC_ALL, an
// empty stdin, and `file`, an image, as fd 3 (kToolFile); its stderr is ours.
// Returns the exit status. NotSupported if there is no such program.
// DeadlineExceeded if it took longer than ten minutes and was killed. Internal
// if something else killed it.
Result<int> RunTool(const std::string& name,
                    const std::vector<std::string>& arguments,
                    const UniqueFd& file);

}  // namespace mountd::csi_local
