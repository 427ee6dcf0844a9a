// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>

#include "agent/driver/logs/log_directory.h"
#include "mountd/base/result.h"

namespace mountd::driver {

struct LogPlace {
  LogFile file;
  std::uint64_t offset = 0;
};

// Returns the place where the last `lines` lines before `end` begin, or where
// the first file begins. Reads the files backwards in pieces, because a line
// may be of any length and a rotation may cut it.
Result<LogPlace> FindTail(const LogDirectory& directory, LogPlace end,
                          std::uint64_t lines);

}  // namespace mountd::driver
