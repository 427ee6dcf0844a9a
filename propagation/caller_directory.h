// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/context.h"

namespace mountd::propagation {

// A directory that a caller passed as an fd, as this executor found it again.
struct CallerDirectory {
  std::string root;  // the alloc_roots that it lies beneath
  UniqueFd parent;   // O_PATH; only root, or the caller, renames in it
  std::string name;
  UniqueFd fd;  // O_PATH, of the executor's own
  exec::FileFacts file;
};

enum class Ownership {
  kCallers,
  // Also a directory of root's right in one of the caller's: an executor took
  // it, and was killed (tree_removal.h). What may be done to it, its caller
  // could have done through that parent.
  kCallersOrTaken,
};

// Opens the directory that `fd` is of, if it belongs to the caller's uid and
// lies beneath one of the alloc_roots that the executor's own configuration has
// for the caller, in the very mount that this root is in: what is mounted below
// a root is another source's, not the caller's.
//
// The kernel's text for the fd is only a hint where to look. What decides is a
// walk from the root, without links, that ends at the same file of the same
// mount. PermissionDenied if it does not, FailedPrecondition if the directory
// is not in the executor's mount namespace, or has been removed;
// InvalidArgument if it is none.
Result<CallerDirectory> OpenCallerDirectory(
    const Context& context, int fd, const exec::CallerPlan& caller,
    const std::string& object, Ownership ownership = Ownership::kCallers);

}  // namespace mountd::propagation
