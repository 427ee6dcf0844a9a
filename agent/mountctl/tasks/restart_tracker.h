// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "agent/mountctl/tasks/task_spec.h"

namespace mountd::agent {

// A time of a clock that never jumps, as CLOCK_BOOTTIME, since its start.
using BootTime = std::chrono::milliseconds;

// Counts the restarts of one task. Its record keeps this across watchers.
struct RestartCount {
  bool operator==(const RestartCount&) const = default;

  std::uint32_t in_interval = 0;
  BootTime interval_began{0};
  std::uint32_t total = 0;
};

struct RestartDecision {
  enum class What { kRestart, kComplete, kFailed };

  What what = What::kFailed;
  std::chrono::milliseconds delay{0};  // of kRestart
  std::string reason{};                // of kFailed, in words
};

// Decides what follows the end of a task, and counts a restart. Has no clock:
// `now` is the time of the end. An interval begins with its first restart. A
// `now` before the interval's begin is of another boot, and begins another
// interval.
RestartDecision DecideRestart(const RestartPolicy& policy, bool success,
                              BootTime now, RestartCount& count);

}  // namespace mountd::agent
