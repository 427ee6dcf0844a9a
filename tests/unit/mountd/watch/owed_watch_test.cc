// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/watch/owed_watch.h"

#include <gtest/gtest.h>

#include "tests/support/fakes/manual_loop.h"

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
    Jump(time);
    steady_ += time;
  }
  // Sets the wall clock.
  void Jump(std::chrono::microseconds by) {
    now_us_ += static_cast<std::uint64_t>(by.count());
  }
  // Fires the timers. Returns the delays that they were set to.
  Times Fire() {
    Times delays = loop_.FireTimers();
    return delays;
  }
  OwedWatch Make(milliseconds late_after) {
    return {loop_,
            late_after,
            {[this](const OwedSummary& owed) { counts_.push_back(owed.count); },
             [this](const OwedSummary& owed, OwedWatch::Micros age) {
               late_.push_back(owed.count);
               age_ = age;
             }},
            {[this] { return now_us_; }, [this] { return steady_; }}};
  }

  ManualLoop loop_;
  std::uint64_t now_us_ = kStart;
  std::chrono::microseconds steady_ = hours(1);
  std::chrono::microseconds age_{0};  // as reported last
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
  // Another tear-down is pending now, which is younger, and later late as well.
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

// The wall clock was set back before the start, so the time lies in the future.
// The debt's age is then 0, neither negative nor larger.
TEST_F(OwedWatchTest, ATimeToComeIsNow) {
  OwedWatch watch = Make(minutes(5));
  watch.Observe({1, kStart + 60'000'000});
  EXPECT_TRUE(late_.empty());
  Pass(minutes(5));
  EXPECT_EQ(Fire(), Times{minutes(5)});
  EXPECT_EQ(age_, minutes(5));
}

class OwedWatchJump : public OwedWatchTest,
                      public ::testing::WithParamInterface<int> {
 protected:
  static hours Years() { return hours(365 * 24) * GetParam(); }
};

// The warning comes when it is due, whatever the wall clock does meanwhile.
TEST_P(OwedWatchJump, OfWhatIsOwedChangesNothing) {
  OwedWatch watch = Make(minutes(5));
  Pass(minutes(1));
  watch.Observe({1, now_us_});
  Jump(Years());
  Pass(minutes(4));
  watch.Observe({1, kStart + 60'000'000});
  EXPECT_TRUE(late_.empty());
  Pass(minutes(1));
  Fire();
  EXPECT_EQ(late_, Counts{1});
  EXPECT_EQ(age_, minutes(5));
  Jump(-2 * Years());
  Pass(minutes(59));
  Fire();
  EXPECT_EQ(late_, Counts{1});
  Pass(minutes(1));
  Fire();
  EXPECT_EQ(late_, (Counts{1, 1}));
  EXPECT_EQ(age_, minutes(65));
}

// The debt is an earlier mountd's, so mountd uses the wall clock once, at the
// start.
TEST_P(OwedWatchJump, OfWhatWasOwedAtTheStartChangesNothing) {
  OwedWatch watch = Make(hours(3));
  Jump(Years());
  Pass(hours(1));
  const auto an_hour =
      static_cast<std::uint64_t>(std::chrono::microseconds(hours(1)).count());
  watch.Observe({1, kStart - an_hour});
  EXPECT_TRUE(late_.empty());
  Pass(hours(1));
  EXPECT_EQ(Fire(), Times{hours(1)});
  EXPECT_EQ(late_, Counts{1});
  EXPECT_EQ(age_, hours(3));
}

// A debt that mountd first sees as the oldest after the jump is no older than
// mountd itself.
TEST_P(OwedWatchJump, MakesNothingOlderThanItCanBe) {
  OwedWatch watch = Make(minutes(30));
  Pass(minutes(10));
  const std::uint64_t since = now_us_;
  Pass(minutes(10));
  Jump(Years());
  watch.Observe({1, since});
  EXPECT_TRUE(late_.empty());
  Pass(minutes(30));
  Fire();
  EXPECT_EQ(late_, Counts{1});
  EXPECT_GE(age_, minutes(30));
  EXPECT_LE(age_, minutes(50));
}

INSTANTIATE_TEST_SUITE_P(, OwedWatchJump, ::testing::Values(-10, 10),
                         [](const auto& sample) {
                           return sample.param < 0 ? "Back" : "Forward";
                         });

}  // namespace
}  // namespace mountd
