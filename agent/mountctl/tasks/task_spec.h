// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "agent/driver/task_config.h"

namespace mountd::agent {

enum class RestartMode {
  kFail,   // a task that used up its attempts stays ended
  kDelay,  // such a task starts again when the interval ends
};

// Says how often a task that ends without success starts again.
struct RestartPolicy {
  bool operator==(const RestartPolicy&) const = default;

  bool Restarts() const { return attempts > 0 || mode == RestartMode::kDelay; }

  std::uint32_t attempts = 2;  // in each interval
  std::chrono::milliseconds interval = std::chrono::minutes(30);
  std::chrono::milliseconds delay = std::chrono::seconds(15);
  RestartMode mode = RestartMode::kFail;
};

// A task as a job file says it. `config` lacks the id, the directories, the
// mounts and the namespace, which each start adds.
struct TaskSpec {
  bool operator==(const TaskSpec&) const = default;

  driver::TaskConfig config{};
  RestartPolicy restart{};
  std::string kill_signal{};  // "": the image's, or SIGTERM
  std::chrono::milliseconds kill_timeout = std::chrono::seconds(5);
  // The allocation is released when the task has ended (`task run --rm`).
  bool remove = false;
};

}  // namespace mountd::agent
