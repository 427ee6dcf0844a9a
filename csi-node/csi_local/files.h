// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// Files, by fd; `object` names what they belong to in an error.
namespace mountd::csi_local {

// What is left of it; Internal if that is more than `limit`.
Result<std::string> ReadAll(int fd, std::size_t limit,
                            const std::string& object);

// The names in a directory but "." and "..", in order. `directory` may be
// O_PATH.
Result<std::vector<std::string>> ListNames(int directory);

// Makes the data of `to`, an empty regular file, that of `from`: shared with it
// where the file system can (FICLONE), otherwise copied, holes staying holes.
Result<void> CopyData(int from, int to, const std::string& object);

}  // namespace mountd::csi_local
