// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace mountd {
namespace {

Error Failure() { return MakeError(Code::kBusy, "try", "it"); }

Result<std::unique_ptr<int>> Make(bool works) {
  if (!works) {
    return Failure();
  }
  return std::make_unique<int>(7);
}

Result<int> Doubled(bool works) {
  MOUNTD_ASSIGN(const std::unique_ptr<int> made, Make(works));
  return *made * 2;
}

Result<void> Check(bool works, int* reached) {
  MOUNTD_TRY(Doubled(works));
  ++*reached;
  return Ok();
}

TEST(ResultTest, HoldsAValueThatCanOnlyBeMoved) {
  auto result = Make(true);
  ASSERT_TRUE(result);
  const std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 7);
}

TEST(ResultTest, AssignPassesTheValueOrTheErrorOn) {
  const auto good = Doubled(true);
  ASSERT_TRUE(good);
  EXPECT_EQ(*good, 14);
  const auto bad = Doubled(false);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::kBusy);
}

TEST(ResultTest, TryReturnsAtTheFirstFailure) {
  int reached = 0;
  EXPECT_TRUE(Check(true, &reached));
  EXPECT_FALSE(Check(false, &reached));
  EXPECT_EQ(reached, 1);
}

TEST(ResultDeathTest, TakingTheSideThatIsNotThereAborts) {
  auto bad = Doubled(false);
  EXPECT_DEATH((void)bad.value(), "");
  const Result<void> good = Ok();
  EXPECT_DEATH((void)good.error(), "");
}

}  // namespace
}  // namespace mountd
