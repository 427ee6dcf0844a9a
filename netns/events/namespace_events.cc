// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/events/namespace_events.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>

namespace mountd::netns {
namespace {

// Records the events. Returns false if the watch has ended. The file's name
// follows the event, padded with NULs.
bool Take(std::span<const std::byte> bytes, LinkEvents* events) {
  while (bytes.size() >= sizeof(inotify_event)) {
    inotify_event event{};
    std::memcpy(&event, bytes.data(), sizeof(event));
    const auto name = bytes.subspan(sizeof(event), event.len);
    // inotify(7): IN_IGNORED follows the deletion of the directory and the
    // unmount of its file system.
    if ((event.mask & IN_IGNORED) != 0) {
      return false;
    }
    // IN_Q_OVERFLOW: the kernel dropped events, so any name may have gone.
    events->overflowed =
        events->overflowed || (event.mask & IN_Q_OVERFLOW) != 0;
    if ((event.mask & IN_DELETE) != 0) {
      const auto* text = reinterpret_cast<const char*>(name.data());
      events->allocations.emplace(text, ::strnlen(text, name.size()));
    }
    bytes = bytes.subspan(sizeof(event) + name.size());
  }
  return true;
}

}  // namespace

Result<UniqueFd> WatchNamespaces(const std::string& directory) {
  // IN_NONBLOCK, because mountd's loop reads the watch.
  UniqueFd watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!watch.valid() ||
      ::inotify_add_watch(watch.get(), directory.c_str(),
                          IN_DELETE | IN_DELETE_SELF | IN_ONLYDIR) < 0) {
    return ErrnoError(errno, "inotify_add_watch", directory);
  }
  return watch;
}

Result<LinkEvents> ReadNamespaceEvents(int watch) {
  alignas(inotify_event) std::array<std::byte, 4096> buffer{};
  LinkEvents events;
  for (;;) {
    const ssize_t size = ::read(watch, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) {
      continue;
    }
    // EAGAIN: all events are read, because the descriptor is non-blocking.
    if (size < 0 && errno == EAGAIN) {
      return events;
    }
    if (size <= 0) {
      return ErrnoError(size < 0 ? errno : EPIPE, "read", "inotify");
    }
    if (!Take(std::span(buffer).first(static_cast<std::size_t>(size)),
              &events)) {
      return MakeError(Code::kNotFound, "read", "inotify",
                       "the watched directory no longer exists");
    }
  }
}

}  // namespace mountd::netns
