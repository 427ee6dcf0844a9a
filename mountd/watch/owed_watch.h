// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "mountd/base/loop.h"
#include "mountd/base/wall_clock.h"

namespace mountd {

// The pending tear-downs of all users together.
struct OwedSummary {
  std::uint32_t count = 0;
  std::uint64_t since_us = 0;  // the oldest, since the epoch; 0: none
  friend bool operator==(const OwedSummary&, const OwedSummary&) = default;
};

struct OwedClocks {
  std::function<std::uint64_t()> wall_us = NowMicroseconds;
  std::function<std::chrono::microseconds()> steady = [] {
    return std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now().time_since_epoch());
  };
};

// Reports when the number of pending tear-downs changes. Also reports when the
// oldest has been pending for longer than `late_after`. Repeats that report
// after the same time again, but at most once an hour.
//
//   nothing late --oldest is `late_after` old--> late: on_late, and again
//        ^                                        |
//        +---- the oldest is younger, or none ----+
//
// Runs on the loop's thread. The store's times are of the wall clock, which may
// jump, so this class measures ages by the steady clock. For a record of an
// earlier mountd the wall clock at the start gives the age. The age of a later
// record is at least zero and at most the age of this watch.
class OwedWatch {
 public:
  using Micros = std::chrono::microseconds;
  struct Events {
    std::function<void(const OwedSummary&)> on_count = [](const auto&) {};
    // Gets how long the oldest has been pending.
    std::function<void(const OwedSummary&, Micros)> on_late = [](const auto&,
                                                                 Micros) {};
  };
  static constexpr Micros kLeastRepeat = std::chrono::hours(1);

  OwedWatch(Loop& loop, std::chrono::milliseconds late_after, Events events,
            OwedClocks clocks = {})
      : loop_(loop),
        late_after_(late_after),
        events_(std::move(events)),
        clocks_(std::move(clocks)),
        started_us_(clocks_.wall_us()),
        started_(clocks_.steady()) {}

  // Takes the current state.
  void Observe(const OwedSummary& summary);
  const OwedSummary& last() const { return last_; }

 private:
  // Returns the age of a failure at that wall clock time.
  Micros AgeOf(std::uint64_t since_us) const;
  void WarnIfLate();
  void WakeAt(Micros due);

  Loop& loop_;
  const Micros late_after_;
  const Events events_;
  const OwedClocks clocks_;
  const std::uint64_t started_us_;
  OwedSummary last_;
  // All times below are of the steady clock.
  const Micros started_;
  Micros oldest_{0};              // the oldest's first failure
  std::optional<Micros> warned_;  // none: no warning since nothing was late
  std::optional<Micros> wake_;    // when the next timer fires
};

}  // namespace mountd
