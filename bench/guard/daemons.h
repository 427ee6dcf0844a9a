// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <chrono>
#include <set>

#include "mountd/base/result.h"

namespace mountd::bench {

// The directory in which the wrappers of bench/guard/run leave a file
// "pid.NAME.PID" for each daemon they start, and the tools their counts.
inline constexpr char kCounts[] = "/run/guard";

// Makes the directory, open to all users.
Result<void> MakeCounts();

// Returns the daemons that wrappers have started and that still run.
std::set<pid_t> CountedDaemons();

// Waits until no daemon has run for `long_enough`, so that all work after an
// answer is done. DeadlineExceeded after a minute.
Result<void> AwaitQuiet(std::chrono::milliseconds long_enough);

// Ends a section: the counts begin again. The daemons must be quiet.
Result<void> Mark();

}  // namespace mountd::bench
