// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/counted.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/support/asleep.h"
#include "tests/support/eventually.h"
#include "tests/support/outcome.h"

namespace mountd {
namespace {

class CountedTest : public ::testing::Test {
 protected:
  bool IsBelow(std::uint32_t limit, const std::string& key = "a") {
    return *counted_.IsBelow(key, limit, [&]() -> Result<std::uint32_t> {
      ++asked_;
      return there_;
    });
  }
  void Add() {
    ++there_;
    counted_.Added("a");
  }
  void Remove() {
    EXPECT_EQ(Outcome(counted_.Removing("a",
                                        [&]() -> Result<bool> {
                                          --there_;
                                          return true;
                                        })),
              "Ok");
  }

  Counted<std::string> counted_;
  std::uint32_t there_ = 0;
  int asked_ = 0;
};

TEST_F(CountedTest, ItCountsOnceAndThenOnlyAtTheLimit) {
  there_ = 3;
  for (int i = 0; i < 7; ++i) {
    ASSERT_TRUE(IsBelow(10));
    Add();
  }
  EXPECT_EQ(asked_, 1);
  EXPECT_FALSE(IsBelow(10));
  EXPECT_FALSE(IsBelow(10));
  EXPECT_EQ(asked_, 3);
  Remove();
  EXPECT_TRUE(IsBelow(10));
  EXPECT_EQ(asked_, 3);
}

TEST_F(CountedTest, WhatCannotBeAddedDoesNotCount) {
  const auto add = [&](bool fails) {
    return Outcome(counted_.AddIfBelow(
        "a", 1,
        [&]() -> Result<std::uint32_t> {
          ++asked_;
          return there_;
        },
        [&]() -> Result<void> {
          if (fails) {
            return MakeError(Code::kInternal, "write", "disk", "is full");
          }
          ++there_;
          return Ok();
        }));
  };
  EXPECT_EQ(add(true), "Internal");
  EXPECT_EQ(add(false), "Ok");
  EXPECT_EQ(there_, 1U);
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(add(false), "Ok");
  EXPECT_EQ(there_, 1U) << "the limit is reached";
  EXPECT_EQ(asked_, 2);
}

TEST_F(CountedTest, AtTheLimitWhatIsThereCounts) {
  ASSERT_TRUE(IsBelow(2));
  Add();
  Add();
  there_ = 0;  // as if no event had come
  EXPECT_TRUE(IsBelow(2));
}

TEST_F(CountedTest, KeysAreCountedApartAndForgotten) {
  there_ = 1;
  EXPECT_FALSE(IsBelow(1));
  EXPECT_FALSE(IsBelow(1, "b"));
  there_ = 0;
  EXPECT_TRUE(IsBelow(1, "b"));
  counted_.Forget("b");
  there_ = 1;
  EXPECT_FALSE(IsBelow(1, "b"));
}

TEST_F(CountedTest, OneThatCannotBeCountedIsNotBelow) {
  const auto fail = []() -> Result<std::uint32_t> {
    return MakeError(Code::kUnavailable, "count", "x");
  };
  EXPECT_EQ(Outcome(counted_.IsBelow("a", 9, fail)), "Unavailable");
  EXPECT_TRUE(*counted_.Removing("a", [] { return Result<bool>(true); }));
  EXPECT_EQ(Outcome(counted_.IsBelow("a", 9, fail)), "Unavailable");
}

TEST_F(CountedTest, WhatWasNotRemovedStillCounts) {
  there_ = 2;
  EXPECT_FALSE(IsBelow(2));
  EXPECT_FALSE(*counted_.Removing("a", [] { return Result<bool>(false); }));
  EXPECT_EQ(Outcome(counted_.Removing("a",
                                      []() -> Result<bool> {
                                        return MakeError(Code::kUnavailable,
                                                         "remove", "x");
                                      })),
            "Unavailable");
  EXPECT_FALSE(IsBelow(2));
}

// A count during the removal would be one too low, and then be reduced again.
TEST_F(CountedTest, NobodyCountsWhileOneIsRemoved) {
  there_ = 2;
  ASSERT_FALSE(IsBelow(2));
  std::atomic<pid_t> other_id = 0;
  std::atomic<bool> has_counted = false;
  std::thread other;
  const Result<bool> removed = counted_.Removing("a", [&]() -> Result<bool> {
    other = std::thread([&] {
      other_id = gettid();
      EXPECT_TRUE(*counted_.IsBelow("a", 2, [&]() -> Result<std::uint32_t> {
        has_counted = true;
        return there_;
      }));
    });
    EXPECT_TRUE(testing::Eventually([&] {
      return has_counted || (other_id != 0 && testing::IsAsleep(other_id));
    }));
    EXPECT_FALSE(has_counted);
    --there_;
    return true;
  });
  other.join();
  EXPECT_TRUE(*removed);
  Add();
  EXPECT_FALSE(IsBelow(2));
}

}  // namespace
}  // namespace mountd
