// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/utsname.h>

#include <cstdio>
#include <utility>

namespace mountd::testing {

// Returns whether the running kernel is older than Linux MAJOR.MINOR. For what
// no call of the kernel tells.
inline bool KernelIsBefore(int major, int minor) {
  utsname name{};
  std::pair<int, int> running;
  return ::uname(&name) == 0 &&
         std::sscanf(name.release, "%d.%d", &running.first, &running.second) ==
             2 &&
         running < std::pair(major, minor);
}

}  // namespace mountd::testing
