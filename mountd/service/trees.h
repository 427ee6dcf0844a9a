// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>

#include "mountd/base/caller.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/plan/tree_executor.h"

namespace mountd {

struct TreeResult {
  std::uint64_t done = 0;  // files and directories
  std::uint64_t left = 0;  // of other owners, unchanged
};

// Works on the files below a directory that a caller passed, by one plan after
// the other until the work is finished. Between plans the plans of other
// callers run, and the work updates its progress (CallContext::progress).
// Aborted if the call was cancelled; finished parts stay done. Keeps no state,
// so the same call continues with the rest.
//
// Blocks. Runs on a worker, on the strand of the directory.
Result<TreeResult> RemoveTree(exec::TreeExecutor& executor,
                              const CallContext& call,
                              const exec::TreePlan& plan,
                              const UniqueFd& directory);
Result<TreeResult> ChownTree(exec::TreeExecutor& executor,
                             const CallContext& call,
                             const exec::TreePlan& plan,
                             const UniqueFd& directory);

}  // namespace mountd
