// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/result.h"

namespace mountd {

// Returns the text of the configuration's file. With `require_root_owned`,
// PermissionDenied if the file is not root's or others may write to it.
// InvalidArgument if it is no regular file, or over 1 MiB.
Result<std::string> ReadConfigFile(const std::string& path,
                                   bool require_root_owned);

}  // namespace mountd
