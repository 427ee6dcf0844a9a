// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/stat.h>

#include <string>

#include "mountd/base/result.h"

namespace mountd {

// The configuration's file as it was read at once: its text, and whose it was.
struct ConfigFile {
  std::string text;
  struct stat status {};
};

// PermissionDenied if it is not root's or others may write to it
// (`require_root_owned`); InvalidArgument if it is no file, or over 1 MiB.
Result<ConfigFile> ReadConfigFile(const std::string& path,
                                  bool require_root_owned);

}  // namespace mountd
