// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <algorithm>
#include <chrono>

namespace mountd::cni {

// The moment at which something must end.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline After(std::chrono::milliseconds time) {
    return Deadline(Clock::now() + time);
  }

  // Returns 0 once the deadline has passed.
  std::chrono::milliseconds Left() const {
    return std::max(
        std::chrono::ceil<std::chrono::milliseconds>(when_ - Clock::now()),
        std::chrono::milliseconds(0));
  }
  bool Passed() const { return Clock::now() >= when_; }
  Deadline Before(std::chrono::milliseconds time) const {
    return Deadline(when_ - time);
  }
  Deadline OrEarlier(const Deadline& other) const {
    return Deadline(std::min(when_, other.when_));
  }

 private:
  explicit Deadline(Clock::time_point when) : when_(when) {}
  Clock::time_point when_;
};

}  // namespace mountd::cni
