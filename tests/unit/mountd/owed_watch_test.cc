// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/owed_watch.h"

#include <gtest/gtest.h>

#include "tests/support/manual_loop.h"

namespace mountd {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using Times = std::vector<milliseconds>;
using Counts = std::vector<std::uint32_t>;

constexpr std::uint64_t kStart = 1'700'000'000'000'000;

class OwedWatchTest : public ::testing::Test {
 protected:
  void Pass(std::chrono::microseconds time) {
    now_us_ += static_cast<std::uint64_t>(time.count());
  }
  // What the timers were set to; their time has come.
  Times Fire() {
    Times delays = loop_.FireTimers();
    return delays;
  }
  OwedWatch Make(milliseconds late_after) {
    return {loop_,
            late_after,
            {[this](const OwedSummary& owed) { counts_.push_back(owed.count); },
             [this](const OwedSummary& owed) { late_.push_back(owed.count); }},
            [this] { return now_us_; }};
  }

  ManualLoop loop_;
  std::uint64_t now_us_ = kStart;
  Counts counts_;
  Counts late_;
};

TEST_F(OwedWatchTest, TellsEachChangeOfTheNumber) {
  OwedWatch watch = Make(minutes(5));
  watch.Observe({});
  EXPECT_TRUE(counts_.empty());
  watch.Observe({2, kStart});
  watch.Observe({2, kStart});
  EXPECT_EQ(watch.last(), (OwedSummary{2, kStart}));
  watch.Observe({1, kStart + 1});
  watch.Observe({});
  EXPECT_EQ(counts_, (Counts{2, 1, 0}));
  EXPECT_TRUE(late_.empty());
}

TEST_F(OwedWatchTest, WarnsOnceWhenTheOldestIsLateAndThenEachHour) {
  OwedWatch watch = Make(minutes(5));
  watch.Observe({1, kStart});
  watch.Observe({3, kStart});
  EXPECT_EQ(loop_.timer_count(), 1U);
  Pass(minutes(5));
  EXPECT_EQ(Fire(), Times{minutes(5)});
  EXPECT_EQ(late_, Counts{3});
  watch.Observe({2, kStart});
  EXPECT_EQ(late_, Counts{3});
  Pass(minutes(59));
  watch.Observe({2, kStart});
  EXPECT_EQ(late_, Counts{3});
  Pass(minutes(1));
  EXPECT_EQ(Fire(), Times{hours(1)});
  EXPECT_EQ(late_, (Counts{3, 2}));
}

TEST_F(OwedWatchTest, WarnsAgainWhenAsLongHasPassed) {
  OwedWatch watch = Make(hours(3));
  watch.Observe({1, kStart - 1});
  Pass(hours(3));
  Fire();
  EXPECT_EQ(late_.size(), 1U);
  EXPECT_EQ(Fire(), Times{hours(3)});
  EXPECT_EQ(late_.size(), 1U);  // its time had not come
  Pass(hours(3));
  Fire();
  EXPECT_EQ(late_.size(), 2U);
}

TEST_F(OwedWatchTest, WhatWasLateAtTheStartIsToldAtOnce) {
  OwedWatch watch = Make(minutes(5));
  Pass(hours(24));
  watch.Observe({1, kStart});
  EXPECT_EQ(late_, Counts{1});
}

TEST_F(OwedWatchTest, ADebtThatIsPaidIsForgotten) {
  OwedWatch watch = Make(minutes(5));
  watch.Observe({1, kStart});
  Pass(minutes(5));
  Fire();
  watch.Observe({});
  EXPECT_EQ(late_, Counts{1});
  // Another one, which is younger, and then late as well.
  watch.Observe({1, now_us_});
  EXPECT_EQ(late_, Counts{1});
  Pass(minutes(5));
  Fire();
  EXPECT_EQ(late_, (Counts{1, 1}));
}

TEST_F(OwedWatchTest, NothingOwedNeedsNoTimer) {
  OwedWatch watch = Make(minutes(5));
  watch.Observe({1, kStart});
  watch.Observe({});
  Pass(hours(1));
  Fire();
  EXPECT_EQ(loop_.timer_count(), 0U);
  EXPECT_TRUE(late_.empty());
}

// The clock was set back: nothing is owed for less than no time.
TEST_F(OwedWatchTest, ATimeToComeIsNotLate) {
  OwedWatch watch = Make(minutes(5));
  watch.Observe({1, kStart + 60'000'000});
  EXPECT_TRUE(late_.empty());
  EXPECT_EQ(Fire(), Times{minutes(6)});
}

}  // namespace
}  // namespace mountd
