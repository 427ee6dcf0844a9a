// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>

#include "agent/types.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::agent {

// Parses the forms of ParseSource, and "directory:PATH". For a directory,
// `source` is the path until OpenSource replaces it. False if the text has no
// such form.
bool ParseMountSource(std::string_view text, BindMountSpec& mount);

// Opens the directory for mountd, and sets `fd`. Does nothing for an empty
// path. The error of open(2) if there is no such directory.
Result<UniqueFd> OpenDirectory(const std::string& path, int* fd);

// Opens the directory that is the mount's source, as OpenDirectory does. The
// request then names the directory by its fd alone, so `source` becomes "".
// Does nothing for another source.
Result<UniqueFd> OpenSource(BindMountSpec& mount);

}  // namespace mountd::agent
