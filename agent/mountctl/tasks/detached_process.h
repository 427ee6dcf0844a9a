// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::agent {

// Starts this program (/proc/self/exe) with other arguments as a process that
// keeps nothing of the caller: it has a session of its own, no terminal, and
// init or a subreaper as its parent. The process keeps the fd `kept`, with the
// same number. Its errors and other output go to the file `log`, which this
// function empties first. Returns when the program runs.
Result<void> StartDetached(const std::vector<std::string>& arguments, int kept,
                           const std::string& log);

}  // namespace mountd::agent
