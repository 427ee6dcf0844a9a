// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi_local {

// Copies the content of the directory `from` into the empty directory `to`, and
// the owner, mode, times and attributes of `from`. Copies files (shared blocks
// if the file system can), directories, symbolic links, pipes, and hard links
// among them; leaves out devices and sockets. Anybody may write to `from`
// meanwhile, so CopyTree follows no link and enters no other file system.
// Nobody else may have `to`. FailedPrecondition for a tree deeper than 256
// directories.
Result<void> CopyTree(const UniqueFd& from, const UniqueFd& to);

}  // namespace mountd::csi_local
