// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/exec/restrict_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

namespace mountd::exec {

Result<void> RestrictMemory() {
#ifndef MOUNTD_SANITIZED
  // RLIMIT_DATA also counts the private memory of mmap(2), since Linux 4.7
  // (setrlimit(2)).
  rlimit limit{};
  bool limited = ::getrlimit(RLIMIT_DATA, &limit) == 0;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur, kMaxMemory);
  limited = limited && ::setrlimit(RLIMIT_DATA, &limit) == 0;
  if (!limited) {
    return ErrnoError(errno, "setrlimit", "mountd-exec");
  }
#endif
  return Ok();
}

}  // namespace mountd::exec
