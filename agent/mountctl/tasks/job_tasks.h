// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/driver/task_driver.h"
#include "agent/mountctl/tasks/job_directory.h"
#include "agent/mountctl/tasks/task_record.h"
#include "mountd/base/result.h"

namespace mountd::agent {

// Starts and ends the tasks of one job. Only a holder of the job's lock calls a
// method. Each method may be killed at any step, and the same call again is
// right. A record names a start before the driver knows of that start, so no
// task is started twice, and none is lost.
class JobTasks {
 public:
  // The caller keeps both objects.
  JobTasks(driver::TaskDriver& driver, const JobDirectory& directory)
      : driver_(driver), directory_(directory) {}

  // Starts the task unless it runs, or has ended with success. True if this
  // call started it. `spec` has all but the id. AlreadyExists if the task runs
  // with another configuration. After an error of the driver the record says
  // kFailed.
  Result<bool> Start(const TaskSpec& spec, std::uint32_t order);
  // Ends the newest start, if it runs, and starts the task again with a new id.
  Result<void> StartAgain(TaskRecord record);
  // Finishes a start that was cut off in kStarting.
  Result<void> FinishStart(TaskRecord record);
  // Ends and forgets the task's newest start, also on a full disk. The record
  // stays, as kStopped and without an id, if the disk has room for it.
  Result<void> Stop(TaskRecord record);
  // Stops all tasks, the last one first, and ends their network. Nobody
  // restarts a task meanwhile. Continues after an error, and returns the first
  // error.
  Result<void> StopAll();

  // Records the end of the start with this id, and what the policy decides.
  // Does nothing if another start is newer, or mountctl has stopped the task.
  Result<void> RecordEnd(const std::string& task, const std::string& id,
                         const driver::ExitResult& result, BootTime now);
  // Does the same for a start that failed. Does not count an error that may be
  // gone a moment later, such as that of a restarting mountd, as an attempt of
  // the task.
  Result<void> RecordFailedStart(const std::string& task, const Error& error,
                                 BootTime now);

 private:
  Result<void> Forget(const driver::TaskHandle& handle);
  Result<void> EndGently(const TaskRecord& record);
  // Nothing if the task is lost.
  Result<std::optional<driver::TaskStatus>> Find(const TaskRecord& record);
  Result<void> Decide(TaskRecord record, bool success,
                      const std::string& reason, BootTime now);

  driver::TaskDriver& driver_;
  const JobDirectory& directory_;
};

// Recovers the task by its handle, and returns its status. NotFound if the task
// is lost.
Result<driver::TaskStatus> FindTask(driver::TaskDriver& driver,
                                    const driver::TaskHandle& handle);

// "exit code 3", "signal 9", "out of memory, signal 9", or the driver's error.
std::string EndText(const driver::ExitResult& result);

}  // namespace mountd::agent
