// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "agent/client.h"
#include "agent/driver/task_driver.h"
#include "agent/mountctl/job/job.h"
#include "agent/mountctl/tasks/job_directory.h"
#include "mountd/base/result.h"

namespace mountd::agent {

// Starts the job's tasks.
struct RunTasks {
  driver::TaskDriver& driver;
  // The caller holds the job's lock.
  const JobDirectory& directory;
  // Starts a watcher of the job unless there is one. Called before the first
  // start, so that a killed run leaves no task that nobody watches.
  std::function<Result<void>()> watch;
};

struct RunOptions {
  bool json = false;
  bool keep = false;  // keep what was made if a later step fails
  // Null for a job without tasks.
  const RunTasks* tasks = nullptr;
  std::vector<std::string> warnings{};  // for the JSON object
};

// Runs one allocation: prepare, network, volumes, mounts, tasks, in this
// order. Prints a line for each on `out`, or one JSON object at the end. May
// run again on the same allocation. If a step fails, releases an allocation
// that this run made, unless options.keep; an allocation from before stays as
// it is. Returns the failed step's error.
Result<void> RunJob(Client& client, const Job& job, const RunOptions& options,
                    std::ostream& out);

}  // namespace mountd::agent
