// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "agent/mountctl/job/job.h"
#include "agent/mountctl/job/section.h"

namespace mountd::agent {

// Reads a [[task]] table, and adds the task to the job, whose network is read
// already.
void ReadTask(Section& section, Job& job);

// Checks that the job's newest mount is for a task of the job, if the job has
// tasks.
void CheckMountsTask(Section& section, const Job& job);

// Gives a task the job's port: MOUNTD_PORT_<label> is the port in the task, and
// MOUNTD_HOST_PORT_<label> the host's. Other characters than letters and digits
// become "_". False if the task has a port of such a variable already.
bool AddPort(const Port& port, driver::TaskConfig& config);

// Parses "500ms", "15s", "30m" or "2h", up to 30 days.
std::optional<std::chrono::milliseconds> ParseDuration(std::string_view text);

}  // namespace mountd::agent
