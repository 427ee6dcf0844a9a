// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// Opens files that nobody but root, or the user that this process runs as, can
// have written. This process's user gains no right by this. In production both
// are root. No part of a path may be a symlink, because otherwise the runner
// would also have to check who can change its target.
namespace mountd::cni {

// Opens an absolute path. Each part must belong to root and be writable by
// nobody else. A parent may be like /tmp, because the sticky bit keeps others
// from replacing root's files. NotFound if a part is missing. PermissionDenied
// otherwise, with the reason.
Result<UniqueFd> OpenTrustedDirectory(const std::string& path);

// Opens such a directory, and makes it, mode 0700, if it is missing and its
// parent exists. PermissionDenied if others may even look into it.
Result<UniqueFd> OpenPrivateDirectory(const std::string& path);
Result<UniqueFd> OpenPrivateDirectoryAt(int parent, const std::string& name);

// Opens for reading a regular file of root's that nobody else may write. `name`
// is one part of a path. NotFound or PermissionDenied.
Result<UniqueFd> OpenTrustedFile(int directory, const std::string& name);

// Reads such a file. InvalidArgument if it has more than `limit` bytes.
Result<std::string> ReadTrustedFile(int directory, const std::string& name,
                                    std::size_t limit);

// NotFound or PermissionDenied unless the file is such a file and executable.
Result<void> CheckTrustedProgram(int directory, const std::string& name);

// Returns the names in a directory, sorted by bytes, without "." and "..".
Result<std::vector<std::string>> ListNames(int directory);

}  // namespace mountd::cni
