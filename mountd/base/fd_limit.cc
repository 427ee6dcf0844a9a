// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/fd_limit.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "mountd/base/unique_fd.h"

namespace mountd {

void RaiseFdLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

bool IsShortOfFds() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY) {
    return false;
  }
  // The lowest free one, which is what open(2) would give.
  const UniqueFd lowest(::fcntl(0, F_DUPFD_CLOEXEC, 0));
  return !lowest.valid() ||
         static_cast<rlim_t>(lowest.get()) >= limit.rlim_cur / 4 * 3;
}

}  // namespace mountd
