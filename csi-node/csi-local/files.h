// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// Works on files by fd. In an error, `object` names their owner.
namespace mountd::csi_local {

// Reads the rest of the file; Internal if that is more than `limit`.
Result<std::string> ReadAll(int fd, std::size_t limit,
                            const std::string& object);

// Returns the names in a directory without "." and "..", in order. `directory`
// may be O_PATH.
Result<std::vector<std::string>> ListNames(int directory);

// Copies the data of `from` into `to`, an empty regular file. Shares the blocks
// if the file system can (FICLONE), otherwise copies and keeps holes.
Result<void> CopyData(int from, int to, const std::string& object);

}  // namespace mountd::csi_local
