// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/trees.h"

namespace mountd {
namespace {

// Repeats plans until the tree is finished. `make` runs one plan.
template <typename Make>
Result<TreeResult> Repeat(const CallContext& call, const char* op,
                          exec::TreePlan plan, const Make& make) {
  TreeResult result;
  call.progress.At(Step::kTree);
  for (;;) {
    if (*call.cancelled) {
      return MakeError(Code::kAborted, op, "directory", "was cancelled");
    }
    MOUNTD_ASSIGN(const exec::TreeReply part, make(plan));
    result.done += part.done;
    result.left += part.left;
    if (part.finished != 0) {
      return result;
    }
    plan.depth = part.depth;
    plan.after = part.after;
    call.progress.Done(result.done);
  }
}

}  // namespace

Result<TreeResult> RemoveTree(exec::TreeExecutor& executor,
                              const CallContext& call,
                              const exec::TreePlan& plan,
                              const UniqueFd& directory) {
  return Repeat(call, "remove", plan, [&](const exec::TreePlan& part) {
    return executor.RemoveTree(part, directory.get());
  });
}

Result<TreeResult> ChownTree(exec::TreeExecutor& executor,
                             const CallContext& call,
                             const exec::TreePlan& plan,
                             const UniqueFd& directory) {
  return Repeat(call, "chown", plan, [&](const exec::TreePlan& part) {
    return executor.ChownTree(part, directory.get());
  });
}

}  // namespace mountd
