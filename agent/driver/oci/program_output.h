// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::driver {

// Runs a program of this machine to its end, and returns its stdout, at most
// 4 KiB. NotFound if there is no such program. DeadlineExceeded after 10 s.
Result<std::string> OutputOf(const std::vector<std::string>& command);

}  // namespace mountd::driver
