// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "agent/mountctl/job/job.h"
#include "mountd/base/result.h"

namespace mountd::agent {

// The command line of `mountctl task run`.
struct OneTask {
  std::string image{};
  std::vector<std::string> volumes{};  // SRC:DST[:ro]
  std::vector<std::string> ports{};
  std::vector<std::string> environment{};  // NAME=VALUE
  std::string name{};
  std::string user{};
  std::string network{};  // "none", "bridge" or "host"; "": by the ports
  std::vector<std::string> command{};
  bool remove = false;
  bool detach = false;
  bool interactive = false;
  bool terminal = false;

  // The command runs by exec, beside a first process that only waits.
  bool ByExec() const { return interactive || terminal; }
};

// Makes the job of one allocation with one task. The allocation has the task's
// name, or "task-" and `random` without a name. InvalidArgument with the option
// as `object`.
Result<Job> JobOf(const OneTask& task, const std::string& random);

// Returns whether JobOf gives this name to an allocation without a name.
bool IsUnnamed(const std::string& allocation);

}  // namespace mountd::agent
