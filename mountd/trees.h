// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/caller.h"
#include "mountd/exec/executor.h"

namespace mountd {

struct TreeResult {
  std::uint64_t done = 0;  // files and directories
  std::uint64_t left = 0;  // of other owners, left as they are
};

// Work on the files below a directory that a caller passed, plan after plan
// until it is finished; between two, others have their turn, how far it is is
// told (CallContext::progress), and Cancel is looked at: Aborted then, with
// what is done done. Nothing is remembered: the same call again goes on with
// what is left.
//
// Blocks; on a worker, on the strand of the directory.
Result<TreeResult> RemoveTree(exec::Executor& executor, const CallContext& call,
                              const exec::TreePlan& plan,
                              const UniqueFd& directory);
Result<TreeResult> ChownTree(exec::Executor& executor, const CallContext& call,
                             const exec::TreePlan& plan,
                             const UniqueFd& directory);

}  // namespace mountd
