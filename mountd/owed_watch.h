// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

#include "mountd/base/loop.h"
#include "mountd/base/wall_clock.h"

namespace mountd {

// How much is owed, of all users together.
struct OwedSummary {
  std::uint32_t count = 0;
  std::uint64_t since_us = 0;  // of the oldest, since the epoch; 0: none
  friend bool operator==(const OwedSummary&, const OwedSummary&) = default;
};

// Tells when what is owed becomes more or less, and when the oldest of it has
// been owed for too long: once when that begins, and then each time as long has
// passed again, at most once in an hour.
//
//   nothing late --oldest is `late_after` old--> late: on_late, and again
//        ^                                        |
//        +---- the oldest is younger, or none ----+
//
// Lives on the loop's thread. Times are the wall clock's, as the store's are:
// it may jump, and a warning with it.
class OwedWatch {
 public:
  struct Events {
    std::function<void(const OwedSummary&)> on_count = [](const auto&) {};
    std::function<void(const OwedSummary&)> on_late = [](const auto&) {};
  };
  static constexpr std::chrono::microseconds kLeastRepeat =
      std::chrono::hours(1);

  OwedWatch(Loop& loop, std::chrono::milliseconds late_after, Events events,
            std::function<std::uint64_t()> now_us = NowMicroseconds)
      : loop_(loop),
        late_after_us_(Micros(late_after)),
        events_(std::move(events)),
        now_us_(std::move(now_us)) {}

  // What there is, as it was just looked at.
  void Observe(const OwedSummary& summary);
  const OwedSummary& last() const { return last_; }

 private:
  static std::uint64_t Micros(std::chrono::microseconds time) {
    return static_cast<std::uint64_t>(time.count());
  }
  void WarnIfLate();
  void WakeAt(std::uint64_t due_us);

  Loop& loop_;
  const std::uint64_t late_after_us_;
  const Events events_;
  const std::function<std::uint64_t()> now_us_;
  OwedSummary last_;
  std::uint64_t warned_us_ = 0;  // 0: not since nothing was late
  std::uint64_t wake_us_ = 0;    // when the next timer fires; 0: there is none
};

}  // namespace mountd
