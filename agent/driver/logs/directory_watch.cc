// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/logs/directory_watch.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

namespace mountd::driver {
namespace {

constexpr std::uint32_t kEvents = IN_CREATE | IN_MODIFY | IN_MOVED_TO |
                                  IN_DELETE | IN_DELETE_SELF | IN_ONLYDIR;
constexpr int kMostReads = 16;

}  // namespace

DirectoryWatch::DirectoryWatch(int directory) {
  inotify_.reset(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  const std::string path = "/proc/self/fd/" + std::to_string(directory);
  if (inotify_.valid() &&
      ::inotify_add_watch(inotify_.get(), path.c_str(), kEvents) < 0) {
    inotify_.reset();
  }
}

void DirectoryWatch::Wait(std::chrono::milliseconds most) const {
  pollfd event = {inotify_.get(), POLLIN, 0};
  const auto wait = std::min(most, kLook);
  // poll(2) leaves out an fd of -1.
  if (::poll(&event, 1, static_cast<int>(wait.count())) <= 0) {
    return;
  }
  // Drops the events, because the reader looks at the files themselves. The
  // number of reads is bounded, because a writer may be faster than this loop.
  std::array<char, 4096> events{};
  for (int i = 0; i < kMostReads; ++i) {
    if (::read(inotify_.get(), events.data(), events.size()) <= 0) {
      return;
    }
  }
}

}  // namespace mountd::driver
