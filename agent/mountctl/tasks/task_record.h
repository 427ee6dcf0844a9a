// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/driver/task_status.h"
#include "agent/mountctl/tasks/restart_tracker.h"
#include "agent/mountctl/tasks/task_spec.h"
#include "mountd/base/result.h"

namespace mountd::agent {

enum class TaskPhase {
  kStarting,  // a start was asked for, and perhaps not answered
  kRunning,
  kWaiting,   // ended; a watcher starts the task again at `restart_at`
  kComplete,  // ended with success
  kFailed,    // ended, or did not start; nobody starts the task again
  kStopped,   // ended by mountctl
};

std::string_view PhaseName(TaskPhase phase);

// All that mountctl remembers of one task.
struct TaskRecord {
  // A watcher looks after the task.
  bool IsActive() const {
    return phase == TaskPhase::kStarting || phase == TaskPhase::kRunning ||
           phase == TaskPhase::kWaiting;
  }
  const std::string& name() const { return spec.config.name; }

  std::uint32_t order = 0;  // of the start in its job
  TaskSpec spec{};
  TaskPhase phase = TaskPhase::kStarting;
  // The newest start's. In kStarting, `handle.config` is the configuration
  // that was asked for. An empty `handle.config.id` says that the driver has
  // forgotten the start, so nothing of the start runs.
  driver::TaskHandle handle{};
  RestartCount restarts{};
  BootTime restart_at{0};  // of kWaiting
  std::string reason{};    // of kFailed and kWaiting, in words
};

// Writes the record as JSON, which later releases read. InvalidArgument if a
// text of the record is not UTF-8.
Result<std::string> ToText(const TaskRecord& record);
// FailedPrecondition if another release wrote the text in another form, or it
// is no record. `path` names the file in the error.
Result<TaskRecord> RecordFromText(std::string_view text,
                                  const std::string& path);

}  // namespace mountd::agent
