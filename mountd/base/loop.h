// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <functional>

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
};

}  // namespace mountd
