// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// Files that are believed because nobody but root can have written them, or the
// user this runs as, which has no more rights to lose: in production both are
// root. No part of a path may be a symlink, because whoever can change what it
// points to would have to be asked about, too.
namespace mountd::cni {

// Opens an absolute path. Each part belongs to root and nobody else may write
// to it; a parent may be like /tmp, where others cannot replace what is root's
// (the sticky bit). NotFound, or PermissionDenied with the reason.
Result<UniqueFd> OpenTrustedDirectory(const std::string& path);

// The same for a directory that may be missing and is then made, mode 0700, in
// a parent that is there; nobody else may even look into it.
Result<UniqueFd> OpenPrivateDirectory(const std::string& path);
Result<UniqueFd> OpenPrivateDirectoryAt(int parent, const std::string& name);

// Opens for reading a regular file of root's, which nobody else may write;
// `name` is one part of a path. NotFound or PermissionDenied.
Result<UniqueFd> OpenTrustedFile(int directory, const std::string& name);

// Such a file's contents; InvalidArgument if it has more bytes than `limit`.
Result<std::string> ReadTrustedFile(int directory, const std::string& name,
                                    std::size_t limit);

// NotFound or PermissionDenied if that is no such file, or not executable.
Result<void> CheckTrustedProgram(int directory, const std::string& name);

// The names in a directory, sorted by bytes, without "." and "..".
Result<std::vector<std::string>> ListNames(int directory);

}  // namespace mountd::cni
