// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::agent {

// Starts this very program (/proc/self/exe) with other arguments as a process
// that has nothing of the caller's: a session of its own, no terminal, and
// init or a subreaper as its parent. `kept` is an fd that the process has with
// the same number. Errors and other output of the process go to the file
// `log`, which the process begins again. Returns when the program runs.
Result<void> StartDetached(const std::vector<std::string>& arguments, int kept,
                           const std::string& log);

}  // namespace mountd::agent
