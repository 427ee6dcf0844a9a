// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <chrono>
#include <set>

#include "mountd/base/result.h"

namespace mountd::bench {

// Where the wrappers of bench/guard/run leave a file "pid.NAME.PID" for each
// daemon that they start, and what the tools count.
inline constexpr char kCounts[] = "/run/guard";

// Makes it, for all users.
Result<void> MakeCounts();

// The daemons that were started through wrappers, and have not ended.
std::set<pid_t> CountedDaemons();

// Waits until none of them has run for as long: what they do after an answer,
// ahead or for later, is done. DeadlineExceeded after a minute.
Result<void> AwaitQuiet(std::chrono::milliseconds long_enough);

// Ends a section: what follows is counted anew. They must be quiet.
Result<void> Mark();

}  // namespace mountd::bench
