// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "mountd/base/loop.h"
#include "tests/support/call_script.h"

namespace mountd {

// A loop whose thread is the test's: it runs while the test waits in it, and
// its timers fire when the test says so. What is left at the end is dropped.
class ManualLoop final : public Loop {
 public:
  void Post(std::function<void()> closure) override {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(closure));
    came_.notify_all();
  }
  void After(std::chrono::milliseconds delay,
             std::function<void()> closure) override {
    timers_.emplace_back(delay, std::move(closure));
  }

  // Runs what is posted until `condition` holds; false: it never did.
  template <typename F>
  bool RunUntil(const F& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kTestPatience;
    while (!condition()) {
      std::function<void()> closure;
      {
        std::unique_lock lock(mutex_);
        if (!came_.wait_until(lock, deadline,
                              [this] { return !posted_.empty(); })) {
          return false;
        }
        closure = std::move(posted_.front());
        posted_.pop_front();
      }
      closure();
    }
    return true;
  }

  // Fires the timers that are set, as if their time had come, and answers what
  // they were set to.
  std::vector<std::chrono::milliseconds> FireTimers() {
    std::vector<std::chrono::milliseconds> delays;
    for (auto& [delay, closure] : std::exchange(timers_, {})) {
      delays.push_back(delay);
      closure();
    }
    return delays;
  }
  std::size_t timer_count() const { return timers_.size(); }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::function<void()>> posted_;
  std::vector<std::pair<std::chrono::milliseconds, std::function<void()>>>
      timers_;  // the loop's thread only
};

}  // namespace mountd
