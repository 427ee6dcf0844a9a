// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>

namespace mountd::nomad {

// Owns the threads of calls, because a driver's calls block. Any thread. The
// destructor waits for all of them.
class CallThreads {
 public:
  CallThreads() = default;
  ~CallThreads();
  CallThreads(const CallThreads&) = delete;
  CallThreads& operator=(const CallThreads&) = delete;

  // False if the process can have no more threads.
  bool Run(std::function<void()> work);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t running_ = 0;
};

}  // namespace mountd::nomad
