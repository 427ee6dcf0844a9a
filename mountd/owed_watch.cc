// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/owed_watch.h"

#include <algorithm>

namespace mountd {

void OwedWatch::Observe(const OwedSummary& summary) {
  const bool changed = summary.count != last_.count;
  last_ = summary;
  if (changed) {
    events_.on_count(last_);
  }
  WarnIfLate();
}

void OwedWatch::WarnIfLate() {
  const std::uint64_t now = now_us_();
  if (last_.count == 0 || now < last_.since_us + late_after_us_) {
    warned_us_ = 0;
    if (last_.count != 0) {
      WakeAt(last_.since_us + late_after_us_);
    }
    return;
  }
  const std::uint64_t pause = std::max(late_after_us_, Micros(kLeastRepeat));
  if (warned_us_ == 0 || now >= warned_us_ + pause) {
    warned_us_ = now;
    events_.on_late(last_);
  }
  WakeAt(warned_us_ + pause);
}

// A timer cannot be taken back: one that comes too early sets another.
void OwedWatch::WakeAt(std::uint64_t due_us) {
  if (wake_us_ != 0 && wake_us_ <= due_us) {
    return;
  }
  wake_us_ = due_us;
  const std::uint64_t now = now_us_();
  const std::chrono::microseconds left(due_us > now ? due_us - now : 0);
  loop_.After(std::chrono::ceil<std::chrono::milliseconds>(left),
              [this, due_us] {
                if (wake_us_ == due_us) {
                  wake_us_ = 0;
                }
                WarnIfLate();
              });
}

}  // namespace mountd
