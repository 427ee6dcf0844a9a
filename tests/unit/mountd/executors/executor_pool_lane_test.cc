// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/executors/executor_pool_lane.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/support/outcome.h"

namespace mountd::exec {
namespace {

using std::chrono::milliseconds;
using Clock = ExecutorLane::Clock;
constexpr std::chrono::seconds kLong(60);

// The waiter's object is free before the lane has room, and the lane has room
// once another plan, which began meanwhile, is slow.
TEST(ExecutorLaneTest, WakesForAPlanThatBeganMeanwhileAndIsSlow) {
  constexpr milliseconds kSlow(100);
  ExecutorLane lane({.width = 1, .slow = kSlow, .spare = 8, .on_object = 1});
  auto first = lane.Take({1000, "nfs"}, Clock::now() + kLong);
  ASSERT_EQ(MessageOf(first), "Ok");
  std::this_thread::sleep_for(2 * kSlow);
  const auto began = Clock::now();
  std::jthread waiting([&] {
    auto turn = lane.Take({1000, "nfs"}, Clock::now() + kLong);
    EXPECT_EQ(MessageOf(turn), "Ok");
    EXPECT_LT(Clock::now() - began, kLong / 2);
    lane.Give(*std::move(turn));
  });
  std::this_thread::sleep_for(kSlow);
  const auto quick = lane.Take({1000, "local"}, Clock::now() + kLong);
  ASSERT_EQ(MessageOf(quick), "Ok");
  lane.Give(*std::move(first));
  waiting.join();
}

TEST(ExecutorLaneTest, WhoGivesUpLeavesTheLaneToOthers) {
  ExecutorLane lane({.width = 1, .slow = kLong});
  auto first = lane.Take({1000}, Clock::now() + kLong);
  ASSERT_EQ(MessageOf(first), "Ok");
  EXPECT_EQ(Outcome(lane.Take({1000}, Clock::now() + milliseconds(10))),
            "DeadlineExceeded");
  lane.Give(*std::move(first));
  EXPECT_EQ(MessageOf(lane.Take({1001}, Clock::now() + kLong)), "Ok");
}

}  // namespace
}  // namespace mountd::exec
