// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>

#include "mountd/base/result.h"

namespace mountd::cni {

// Returns the inode of the network namespace that is pinned at `path`, in a
// directory that only root can change. If `inode` is not 0, the namespace must
// have that inode. NotFound if nothing is at `path`. FailedPrecondition if
// something else is there. PermissionDenied for this process's own namespace,
// because no plugin may change that.
Result<std::uint64_t> CheckNetns(const std::string& path, std::uint64_t inode);

}  // namespace mountd::cni
