// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace mountd {

// The event loop as the core sees it. Closures run on the loop's thread, one at
// a time, and must not block or throw.
class Loop {
 public:
  virtual ~Loop() = default;
  // From any thread.
  virtual void Post(std::function<void()> closure) = 0;
  // From the loop's thread only. Not cancellable: what it finds gone, it
  // leaves.
  virtual void After(std::chrono::milliseconds delay,
                     std::function<void()> closure) = 0;

  // Watches an fd, which outlives it, while it lives.
  class Source {
   public:
    virtual ~Source() = default;
    virtual void SetEvents(std::uint32_t events) = 0;
  };
  // `closure` gets those of `events` (EPOLLIN, ... of epoll(7)) that are there.
  // From the loop's thread only. Null if the fd cannot be watched.
  virtual std::unique_ptr<Source> WatchFd(
      int fd, std::uint32_t events,
      std::function<void(std::uint32_t)> closure) = 0;
};

}  // namespace mountd
