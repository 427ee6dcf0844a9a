// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "mountd/base/loop.h"
#include "tests/support/fakes/call_script.h"

namespace mountd {

// A loop that belongs to the test's thread. Runs only while the test waits in
// it. Fires timers only when the test says so. Drops the remaining work at its
// end.
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

  std::unique_ptr<Source> WatchFd(
      int fd, std::uint32_t events,
      std::function<void(std::uint32_t)> closure) override {
    if (refused_ > 0) {
      --refused_;
      return nullptr;
    }
    return std::make_unique<FdSource>(*this, fd, events, std::move(closure));
  }

  // Makes watching the next `count` fds fail.
  void RefuseFds(int count) { refused_ = count; }

  // Runs posted and watched closures until `condition` holds. False if it never
  // does.
  template <typename F>
  bool RunUntil(const F& condition) {
    constexpr std::chrono::milliseconds kBetweenPolls{2};
    const auto deadline = std::chrono::steady_clock::now() + kTestPatience;
    while (!condition()) {
      PollSources();
      std::function<void()> closure;
      {
        std::unique_lock lock(mutex_);
        if (!came_.wait_until(
                lock,
                std::min(deadline,
                         std::chrono::steady_clock::now() + kBetweenPolls),
                [this] { return !posted_.empty(); })) {
          if (std::chrono::steady_clock::now() >= deadline) {
            return false;
          }
          continue;
        }
        closure = std::move(posted_.front());
        posted_.pop_front();
      }
      closure();
    }
    return true;
  }

  // Fires all timers as if their time had come. Returns the delays that they
  // were set to.
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
  class FdSource final : public Source {
   public:
    FdSource(ManualLoop& loop, int fd, std::uint32_t events,
             std::function<void(std::uint32_t)> closure)
        : loop_(loop), fd_(fd), events_(events), closure_(std::move(closure)) {
      loop_.sources_.insert(this);
    }
    ~FdSource() override { loop_.sources_.erase(this); }
    FdSource(const FdSource&) = delete;
    FdSource& operator=(const FdSource&) = delete;
    void SetEvents(std::uint32_t events) override { events_ = events; }

    // EPOLL* and POLL* have the same values.
    void Poll() {
      pollfd entry{fd_, static_cast<short>(events_), 0};
      if (poll(&entry, 1, 0) > 0) {
        const auto closure = closure_;
        closure(static_cast<std::uint32_t>(entry.revents));
      }
    }

   private:
    ManualLoop& loop_;
    const int fd_;
    std::uint32_t events_;
    const std::function<void(std::uint32_t)> closure_;
  };

  void PollSources() {
    const std::set<FdSource*> all = sources_;
    for (FdSource* source : all) {
      if (sources_.contains(source)) {
        source->Poll();
      }
    }
  }

  std::set<FdSource*> sources_;  // the loop's thread only
  int refused_ = 0;              // the loop's thread only
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::function<void()>> posted_;
  std::vector<std::pair<std::chrono::milliseconds, std::function<void()>>>
      timers_;  // the loop's thread only
};

}  // namespace mountd
