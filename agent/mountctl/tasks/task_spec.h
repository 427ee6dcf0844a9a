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
  // If somebody kills the mountctl of a `task run --rm`, a later mountctl
  // releases the allocation. False for a name that the user has chosen, because
  // another agent may have an allocation of that name by then.
  bool remove = false;
  // The task's own process only waits, because the command runs by exec. So
  // nobody waits for the task's end if mountctl was killed.
  bool holds_exec = false;
};

}  // namespace mountd::agent
