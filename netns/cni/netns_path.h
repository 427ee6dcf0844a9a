// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>

#include "mountd/base/result.h"

namespace mountd::cni {

// The inode of the network namespace that is pinned at `path`, in a directory
// that nobody but root can change. If `inode` is not 0 it has to be that one.
// NotFound; FailedPrecondition if there is something else; PermissionDenied if
// it is the namespace of this process, which no plugin is to be let loose on.
Result<std::uint64_t> CheckNetns(const std::string& path, std::uint64_t inode);

}  // namespace mountd::cni
