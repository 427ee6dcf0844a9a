// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/log_budget.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

namespace mountd {
namespace {

using Verdict = LogBudget::Verdict;

class LogBudgetTest : public ::testing::Test {
 protected:
  // Returns how many of `count` lines of that user are logged now.
  int Logged(std::uint32_t uid, int count) {
    int logged = 0;
    for (int i = 0; i < count; ++i) {
      logged += budget_.Take(uid, now_) == Verdict::kLeaveOut ? 0 : 1;
    }
    return logged;
  }

  LogBudget budget_{{.burst = 10, .per_second = 2, .users = 5}};
  LogBudget::Clock::time_point now_{};
};

TEST_F(LogBudgetTest, AUserHasABurstAndALittleMore) {
  EXPECT_EQ(Logged(1, 100), 10);
  EXPECT_EQ(budget_.TakeLeftOut(1), 90U);
  EXPECT_EQ(budget_.TakeLeftOut(1), 0U);
  now_ += std::chrono::seconds(3);
  EXPECT_EQ(Logged(1, 100), 6);
  now_ += std::chrono::hours(1);
  EXPECT_EQ(Logged(1, 100), 10);
}

TEST_F(LogBudgetTest, TheLastOneBeforeIsKnownOnce) {
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(budget_.Take(1, now_), Verdict::kLog);
  }
  EXPECT_EQ(budget_.Take(1, now_), Verdict::kLogLast);
  EXPECT_EQ(budget_.Take(1, now_), Verdict::kLeaveOut);
  now_ += std::chrono::milliseconds(500);
  EXPECT_EQ(budget_.Take(1, now_), Verdict::kLog);
  // After a pause the user's lines are logged again.
  now_ += std::chrono::hours(1);
  EXPECT_EQ(Logged(1, 9), 9);
  EXPECT_EQ(budget_.Take(1, now_), Verdict::kLogLast);
}

TEST_F(LogBudgetTest, OneUserDoesNotHideAnother) {
  EXPECT_EQ(Logged(1, 1000), 10);
  EXPECT_EQ(Logged(2, 3), 3);
}

// A user with subordinate ids counts as many users.
TEST_F(LogBudgetTest, AllTogetherAreBoundedInLinesAndInMemory) {
  int logged = 0;
  for (std::uint32_t uid = 100'000; uid < 165'536; ++uid) {
    logged += Logged(uid, 1);
  }
  EXPECT_EQ(logged, 50);
  now_ += std::chrono::hours(1);
  EXPECT_EQ(Logged(7, 1), 1);
}

}  // namespace
}  // namespace mountd
