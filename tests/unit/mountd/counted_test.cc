// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/counted.h"

#include <gtest/gtest.h>

#include <string>

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
    --there_;
    counted_.Removed("a");
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

TEST_F(CountedTest, AtTheLimitWhatIsThereCounts) {
  ASSERT_TRUE(IsBelow(2));
  Add();
  Add();
  there_ = 0;  // as if nobody had told
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
  counted_.Removed("a");
  EXPECT_EQ(Outcome(counted_.IsBelow("a", 9, fail)), "Unavailable");
}

}  // namespace
}  // namespace mountd
