// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/watch/owed_watch.h"

#include <algorithm>

namespace mountd {

void OwedWatch::Observe(const OwedSummary& summary) {
  const bool changed = summary.count != last_.count;
  if (summary.since_us != last_.since_us) {
    oldest_ = clocks_.steady() - AgeOf(summary.since_us);
  }
  last_ = summary;
  if (changed) {
    events_.on_count(last_);
  }
  WarnIfLate();
}

OwedWatch::Micros OwedWatch::AgeOf(std::uint64_t since_us) const {
  const auto between = [](std::uint64_t from, std::uint64_t to) {
    return Micros(from < to ? to - from : 0);
  };
  const Micros up = clocks_.steady() - started_;
  return since_us <= started_us_
             ? between(since_us, started_us_) + up
             : std::min(between(since_us, clocks_.wall_us()), up);
}

void OwedWatch::WarnIfLate() {
  const Micros now = clocks_.steady();
  // Nothing is late now, so the next warning is a first one.
  if (last_.count == 0 || now < oldest_ + late_after_) {
    warned_.reset();
    if (last_.count != 0) {
      WakeAt(oldest_ + late_after_);
    }
    return;
  }
  const Micros pause = std::max(late_after_, kLeastRepeat);
  if (!warned_ || now >= *warned_ + pause) {
    warned_ = now;
    events_.on_late(last_, now - oldest_);
  }
  WakeAt(*warned_ + pause);
}

// The loop cannot cancel a timer. So a timer that ends too early sets another
// one.
void OwedWatch::WakeAt(Micros due) {
  if (wake_ && *wake_ <= due) {
    return;
  }
  wake_ = due;
  const Micros left = std::max(due - clocks_.steady(), Micros::zero());
  loop_.After(std::chrono::ceil<std::chrono::milliseconds>(left), [this, due] {
    if (wake_ == due) {
      wake_.reset();
    }
    WarnIfLate();
  });
}

}  // namespace mountd
