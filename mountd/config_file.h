// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/result.h"

namespace mountd {

// The text of the configuration's file.
// PermissionDenied if it is not root's or others may write to it
// (`require_root_owned`); InvalidArgument if it is no file, or over 1 MiB.
Result<std::string> ReadConfigFile(const std::string& path,
                                   bool require_root_owned);

}  // namespace mountd
