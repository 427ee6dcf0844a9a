// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <limits>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mountd {

// Says whether a scripted failure prevents the call's effect, or only hides the
// effect. The caller has to treat the outcome as unknown.
enum class FailWhen { kBefore, kAfter };

// The time that a test waits for an event that must come. No test measures it.
inline constexpr std::chrono::seconds kTestPatience{30};

// Owns the failures that a test has scripted for a fake, and the list of the
// calls that came. E is the fake's error type. Thread-safe.
template <typename E>
class CallScript {
 public:
  static constexpr std::size_t kAlways =
      std::numeric_limits<std::size_t>::max();

  // Fails the n-th call from now on, counted from 1, of any method.
  void FailNth(std::size_t n, E error, FailWhen when) {
    const std::lock_guard lock(mutex_);
    planned_.push_back({{}, n - 1, 1, std::move(error), when});
  }
  // Fails the next `times` calls of `method`; with kAlways all of them until
  // Clear.
  void FailNext(const std::string& method, E error,
                FailWhen when = FailWhen::kBefore, std::size_t times = 1) {
    const std::lock_guard lock(mutex_);
    planned_.push_back({method, 0, times, std::move(error), when});
  }
  void Clear() {
    const std::lock_guard lock(mutex_);
    planned_.clear();
  }

  // Makes calls of `method` wait, before they take effect, until Unblock. The
  // wait is bounded, so a test that forgets Unblock still ends.
  void Block(const std::string& method) {
    const std::lock_guard lock(mutex_);
    waiting_[method] = 0;
  }
  void Unblock(const std::string& method) {
    const std::lock_guard lock(mutex_);
    waiting_.erase(method);
    changed_.notify_all();
  }
  void UnblockAll() {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
    changed_.notify_all();
  }
  // False if no `count` calls of `method` came to wait.
  bool AwaitBlocked(const std::string& method, std::size_t count = 1) {
    return Await([&] {
      const auto found = waiting_.find(method);
      return found != waiting_.end() && found->second >= count;
    });
  }
  // False if there never were `count` calls that begin with `text`.
  bool AwaitCalls(const std::string& text, std::size_t count) {
    return Await([&] { return CountLocked(text) >= count; });
  }

  // Returns "<method> <object>" of each call, in the order they came.
  std::vector<std::string> calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  // Returns how many calls begin with `text`.
  std::size_t Count(const std::string& text) const {
    const std::lock_guard lock(mutex_);
    return CountLocked(text);
  }
  void Forget() {
    const std::lock_guard lock(mutex_);
    calls_.clear();
  }

  // Makes one call of the fake; `effect` carries it out and returns its answer.
  template <typename R, typename F>
  R Run(const std::string& method, const std::string& object, const F& effect) {
    const std::optional<Failure> failure = Enter(method, object);
    if (failure && failure->when == FailWhen::kBefore) {
      return failure->error;
    }
    R result = effect();
    if (failure) {
      return failure->error;
    }
    return result;
  }

 private:
  struct Failure {
    std::string method;  // "": any
    std::size_t skip = 0;
    std::size_t times = 1;
    E error;
    FailWhen when = FailWhen::kBefore;
  };

  template <typename F>
  bool Await(const F& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kTestPatience, condition);
  }

  std::size_t CountLocked(const std::string& text) const {
    return static_cast<std::size_t>(std::count_if(
        calls_.begin(), calls_.end(),
        [&](const auto& call) { return call.starts_with(text); }));
  }

  std::optional<Failure> Enter(const std::string& method,
                               const std::string& object) {
    std::unique_lock lock(mutex_);
    calls_.push_back(object.empty() ? method : method + " " + object);
    std::optional<Failure> failure = TakeFailureLocked(method);
    if (const auto gate = waiting_.find(method); gate != waiting_.end()) {
      ++gate->second;
    }
    changed_.notify_all();
    changed_.wait_for(lock, 2 * kTestPatience,
                      [&] { return !waiting_.contains(method); });
    return failure;
  }

  std::optional<Failure> TakeFailureLocked(const std::string& method) {
    std::optional<Failure> taken;
    for (auto failure = planned_.begin(); failure != planned_.end();) {
      const bool matches = failure->method.empty() || failure->method == method;
      if (matches && failure->skip > 0) {
        --failure->skip;
      } else if (matches && !taken) {
        taken = *failure;
        if (failure->times != kAlways && --failure->times == 0) {
          failure = planned_.erase(failure);
          continue;
        }
      }
      ++failure;
    }
    return taken;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Failure> planned_;
  std::map<std::string, std::size_t> waiting_;  // blocked method -> its calls
  std::vector<std::string> calls_;
};

}  // namespace mountd
