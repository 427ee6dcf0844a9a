// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <algorithm>
#include <chrono>

namespace mountd::driver {

// The time at which a call gives up, by the steady clock.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds from_now)
      : end_(std::chrono::steady_clock::now() + from_now) {}

  // Returns the milliseconds that are left, as poll(2) takes them; 0 if none.
  int LeftMs() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        end_ - std::chrono::steady_clock::now());
    constexpr std::chrono::milliseconds::rep kMost = 3'600'000;
    return static_cast<int>(
        std::clamp<std::chrono::milliseconds::rep>(left.count(), 0, kMost));
  }

 private:
  std::chrono::steady_clock::time_point end_;
};

}  // namespace mountd::driver
