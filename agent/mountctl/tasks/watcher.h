// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <map>
#include <string>
#include <thread>

#include "agent/driver/task_driver.h"
#include "agent/mountctl/tasks/job_directory.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::agent {

// Restarts the tasks of one job as their policies say, until no task of the job
// can run any more. Owns a thread for each task. If somebody kills the watcher,
// the tasks stay as they are, and another watcher continues from the records.
class Watcher {
 public:
  // `now` returns a BootTime, on any thread. The driver is not owned.
  Watcher(driver::TaskDriver& driver, JobDirectory directory,
          std::function<BootTime()> now);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // Returns when no task is active. Closes `watch`, the watcher's lock, while
  // it has the job's lock. So a process that starts a task later sees that no
  // watcher lives. Ends the driver's calls (Shutdown).
  Result<void> Run(UniqueFd watch);

 private:
  Result<bool> Look(UniqueFd& watch);
  void Follow(const std::string& task);
  Result<void> Step(const std::string& task, const TaskRecord& record);
  Result<void> StartDue(const std::string& task);
  Result<void> AwaitEnd(const TaskRecord& record);
  void Stop();

  driver::TaskDriver& driver_;
  const JobDirectory directory_;
  const std::function<BootTime()> now_;
  UniqueFd stopping_;  // an eventfd, readable for good once this object stops
  std::map<std::string, std::thread> threads_;
};

}  // namespace mountd::agent
