// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/tasks/directory_changes.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

namespace mountd::agent {

Result<DirectoryChanges> DirectoryChanges::Of(int directory) {
  UniqueFd inotify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify.valid()) {
    return ErrnoError(errno, "inotify_init1", "a job");
  }
  // The link leads to the directory of the fd, whatever has its path by now.
  const std::string link = "/proc/self/fd/" + std::to_string(directory);
  if (::inotify_add_watch(inotify.get(), link.c_str(),
                          IN_MOVED_TO | IN_DELETE | IN_DELETE_SELF) < 0) {
    return ErrnoError(errno, "inotify_add_watch", "a job");
  }
  return DirectoryChanges(std::move(inotify));
}

void DirectoryChanges::Wait(std::optional<std::chrono::milliseconds> time,
                            int stop) {
  // poll(2) takes an int. A wait that ends early does no harm.
  constexpr std::int64_t kLongest = 3'600'000;
  const int timeout = time ? static_cast<int>(std::clamp<std::int64_t>(
                                 time->count(), 0, kLongest))
                           : -1;
  std::array<pollfd, 2> fds{{{inotify_.get(), POLLIN, 0}, {stop, POLLIN, 0}}};
  // A signal ends the wait early as well.
  (void)::poll(fds.data(), fds.size(), timeout);
  std::array<char, 4096> events{};
  while (::read(inotify_.get(), events.data(), events.size()) > 0) {
  }
}

}  // namespace mountd::agent
