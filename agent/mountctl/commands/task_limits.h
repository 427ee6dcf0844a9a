// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "agent/driver/task_driver.h"
#include "agent/mountctl/job/job.h"
#include "mountd/base/result.h"

namespace mountd::agent {

// Returns a line for each limit of the job's tasks that the driver leaves out,
// such as "server: memory is not limited, because ...". FailedPrecondition if
// the job names a cgroup, and the driver cannot use it.
Result<std::vector<std::string>> LimitsLeftOut(driver::TaskDriver& driver,
                                               const Job& job,
                                               const std::string& cgroup);

}  // namespace mountd::agent
