// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <iosfwd>

#include "agent/client.h"
#include "agent/mountctl/job/job.h"
#include "mountd/base/result.h"

namespace mountd::agent {

struct RunOptions {
  bool json = false;
  bool keep = false;  // keep what was made if a later step fails
};

// Runs the prerun of one allocation: prepare, network, volumes, mounts, in this
// order. Prints a line for each on `out`, or one JSON object at the end. May
// run again on the same allocation. If a step fails, releases an allocation
// that this run made, unless options.keep; an allocation from before stays as
// it is. Returns the failed step's error.
Result<void> RunJob(Client& client, const Job& job, const RunOptions& options,
                    std::ostream& out);

}  // namespace mountd::agent
