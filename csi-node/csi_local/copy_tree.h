// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi_local {

// Copies what is in the directory `from` into the empty directory `to`, and its
// own owner, mode, times and attributes with it: files (shared where the file
// system can), directories, symbolic links, pipes, and hard links among them.
// Devices and sockets are left out. `from` may be written to by anybody at the
// time: no link is followed, no other file system entered. Nobody else may have
// `to`. FailedPrecondition for a tree deeper than 256 directories.
Result<void> CopyTree(const UniqueFd& from, const UniqueFd& to);

}  // namespace mountd::csi_local
