// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <string>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// Reads files of trees that others made: root file systems and image layouts.
// The kernel resolves each path with the tree as its root (openat2(2),
// RESOLVE_IN_ROOT), so a link in the tree leads to a file of the tree. Never
// opens a FIFO, a device or a socket for reading, because such an open has
// effects or waits.
namespace mountd::driver {

// Opens the directory at an absolute path of this machine.
Result<UniqueFd> OpenTree(const std::string& path);

// Returns the content of the regular file `path` of `tree`; `path` is relative.
// NotFound if it is missing. InvalidArgument if it is no regular file, is on
// another file system than the tree, or has more than `max_bytes`. `object`
// names the file in errors.
Result<std::string> ReadBeneath(int tree, const std::string& path,
                                std::size_t max_bytes,
                                const std::string& object);

}  // namespace mountd::driver
