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

// How much is owed, of all users together.
struct OwedSummary {
  std::uint32_t count = 0;
  std::uint64_t since_us = 0;  // of the oldest, since the epoch; 0: none
  friend bool operator==(const OwedSummary&, const OwedSummary&) = default;
};

struct OwedClocks {
  std::function<std::uint64_t()> wall_us = NowMicroseconds;
  std::function<std::chrono::microseconds()> steady = [] {
    return std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now().time_since_epoch());
  };
};

// Tells when what is owed becomes more or less, and when the oldest of it has
// been owed for too long: once when that begins, and then each time as long has
// passed again, at most once in an hour.
//
//   nothing late --oldest is `late_after` old--> late: on_late, and again
//        ^                                        |
//        +---- the oldest is younger, or none ----+
//
// Lives on the loop's thread. The store's times are the wall clock's, which may
// jump; how long something is owed goes by the steady clock. Of what an earlier
// mountd has left, the wall clock at the start says how old it is; what came
// since cannot be older than this watch, nor younger than nothing.
class OwedWatch {
 public:
  using Micros = std::chrono::microseconds;
  struct Events {
    std::function<void(const OwedSummary&)> on_count = [](const auto&) {};
    // With how long the oldest is owed.
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

  // What there is, as it was just looked at.
  void Observe(const OwedSummary& summary);
  const OwedSummary& last() const { return last_; }

 private:
  // How old what failed at that wall clock time is.
  Micros AgeOf(std::uint64_t since_us) const;
  void WarnIfLate();
  void WakeAt(Micros due);

  Loop& loop_;
  const Micros late_after_;
  const Events events_;
  const OwedClocks clocks_;
  const std::uint64_t started_us_;
  OwedSummary last_;
  // Of the steady clock, all below.
  const Micros started_;
  Micros oldest_{0};              // when the oldest failed first
  std::optional<Micros> warned_;  // none: not since nothing was late
  std::optional<Micros> wake_;    // when the next timer fires
};

}  // namespace mountd
