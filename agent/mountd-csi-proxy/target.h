// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// The directory of a target path, with the rights of the proxy's user. `path`
// is a CleanPath.
namespace mountd::csi_proxy {

// Returns an fd (O_PATH) of the directory. Makes the directory if it is
// missing; its parent is the orchestrator's. FailedPrecondition if the parent
// is missing, or if the path leads to a link or to another file than a
// directory.
Result<UniqueFd> OpenTarget(const std::string& path);

// Returns whether something is mounted on the path's directory, as this process
// sees it. True if the kernel cannot tell (before Linux 5.8). Errors as of
// OpenTarget.
Result<bool> IsMountPoint(const std::string& path);

// Removes the directory, if it is there. FailedPrecondition if it has files, or
// if something is mounted on it.
Result<void> RemoveTarget(const std::string& path);

}  // namespace mountd::csi_proxy
