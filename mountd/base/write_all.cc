// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/write_all.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace mountd {

Result<void> WriteAll(int fd, std::string_view bytes,
                      const std::string& object) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EAGAIN) {
      pollfd writable{fd, POLLOUT, 0};
      // An error of poll(2) shows in the next write(2).
      (void)::poll(&writable, 1, -1);
      continue;
    }
    if (put < 0 && errno != EINTR) {
      return ErrnoError(errno, "write", object);
    }
    bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(put, 0)));
  }
  return Ok();
}

}  // namespace mountd
