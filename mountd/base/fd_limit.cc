// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/fd_limit.h"

#include <sys/resource.h>

#include <cerrno>
#include <filesystem>
#include <iterator>
#include <system_error>

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
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return false;
  }
  std::error_code failed;
  const std::filesystem::directory_iterator fds("/proc/self/fd", failed);
  if (failed) {
    // Opening /proc/self/fd needs a descriptor, so EMFILE means that none is
    // free.
    return failed.value() == EMFILE;
  }
  const auto count = std::distance(begin(fds), end(fds));
  return static_cast<rlim_t>(count) >= limit.rlim_cur / 4 * 3;
}

}  // namespace mountd
