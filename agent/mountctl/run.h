// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <iosfwd>

#include "agent/client.h"
#include "agent/mountctl/job.h"
#include "mountd/base/result.h"

namespace mountd::agent {

struct RunOptions {
  bool json = false;
  bool keep = false;  // leave what was made when a later step fails
};

// The prerun of one allocation: prepare, network, volumes, mounts, in this
// order, a line each on `out` (or one JSON object at the end). May be run again
// on the same allocation. If a step fails, an allocation that this run made is
// released, unless told to keep it; one that was there before is left alone.
// Returns the failed step's error.
Result<void> RunJob(Client& client, const Job& job, const RunOptions& options,
                    std::ostream& out);

}  // namespace mountd::agent
