// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace mountd {

// The event loop as the core sees it. Runs closures on the loop's thread, one
// at a time. Closures never block or throw.
class Loop {
 public:
  virtual ~Loop() = default;
  // Runs `closure` soon. From any thread.
  virtual void Post(std::function<void()> closure) = 0;
  // Runs `closure` after `delay`. From the loop's thread only. A caller cannot
  // cancel it, so a closure must do nothing if its object is gone.
  virtual void After(std::chrono::milliseconds delay,
                     std::function<void()> closure) = 0;

  // Watches an fd for as long as this object lives. The fd outlives the Source.
  class Source {
   public:
    virtual ~Source() = default;
    virtual void SetEvents(std::uint32_t events) = 0;
  };
  // Calls `closure` with those of `events` (EPOLLIN, ... of epoll(7)) that have
  // happened. From the loop's thread only. Null if the fd cannot be watched.
  virtual std::unique_ptr<Source> WatchFd(
      int fd, std::uint32_t events,
      std::function<void(std::uint32_t)> closure) = 0;
};

}  // namespace mountd
