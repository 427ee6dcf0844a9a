// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/tasks/directory_changes.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

namespace mountd::agent {

DirectoryChanges DirectoryChanges::Of(int directory) {
  UniqueFd inotify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  // The link leads to the directory of the fd, even if another directory has
  // its path by now.
  const std::string link = "/proc/self/fd/" + std::to_string(directory);
  if (inotify.valid() &&
      ::inotify_add_watch(inotify.get(), link.c_str(),
                          IN_MOVED_TO | IN_DELETE | IN_DELETE_SELF) < 0) {
    inotify.reset();
  }
  return DirectoryChanges(std::move(inotify));
}

void DirectoryChanges::Wait(std::optional<std::chrono::milliseconds> time,
                            int stop) {
  // poll(2) does not count the time in which the machine is suspended, so each
  // wait is short. A wait that ends early does no harm.
  constexpr std::int64_t kLongest = 60'000;
  constexpr std::int64_t kWithoutInotify = 1'000;
  const std::int64_t most = inotify_.valid() ? kLongest : kWithoutInotify;
  const int timeout =
      time ? static_cast<int>(std::clamp<std::int64_t>(time->count(), 0, most))
      : inotify_.valid() ? -1
                         : static_cast<int>(kWithoutInotify);
  std::array<pollfd, 2> fds{{{inotify_.get(), POLLIN, 0}, {stop, POLLIN, 0}}};
  // A signal ends the wait early as well.
  (void)::poll(fds.data(), fds.size(), timeout);
  std::array<char, 4096> events{};
  while (inotify_.valid() &&
         ::read(inotify_.get(), events.data(), events.size()) > 0) {
  }
}

}  // namespace mountd::agent
