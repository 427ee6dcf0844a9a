// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/ground/context.h"

namespace mountd::propagation {

// A directory that a caller passed as an fd, opened again by the executor
// itself.
struct CallerDirectory {
  std::string root;  // the alloc_root that the directory lies beneath
  UniqueFd parent;   // O_PATH; only root or the caller renames in it
  std::string name;
  UniqueFd fd;  // O_PATH; the executor's own descriptor
  exec::FileFacts file;
};

enum class Ownership {
  kCallers,
  // Also accepts a directory of root's that lies right in a directory of the
  // caller's. A killed executor leaves such a directory, because it takes a
  // directory over before it removes the content (tree_removal.h). Through the
  // parent the caller could do to such a directory all that mountd may do.
  kCallersOrTaken,
};

// Opens again the directory that `fd` refers to. The directory must belong to
// the caller's uid and lie beneath one of the alloc_roots that the executor's
// own configuration has for the caller, in the same mount as that root, because
// a mount below a root shows another source's files, not the caller's.
//
// The kernel's path for the fd (/proc/self/fd) is only a hint where to look.
// The decision is a walk from the root, without links, that must end at the
// same file of the same mount.
//
// PermissionDenied if the walk ends elsewhere. FailedPrecondition if the
// directory is not in the executor's mount namespace, or has been removed.
// InvalidArgument if `fd` is not a directory.
Result<CallerDirectory> OpenCallerDirectory(
    const Context& context, int fd, const exec::CallerPlan& caller,
    const std::string& object, Ownership ownership = Ownership::kCallers);

}  // namespace mountd::propagation
