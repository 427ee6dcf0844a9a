// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/trees.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/fakes/core.h"
#include "tests/support/matchers.h"

namespace mountd {
namespace {

using exec::PlanKind;

class TreesTest : public ::testing::Test {
 protected:
  std::vector<exec::Request> PlansOf(PlanKind kind) const {
    std::vector<exec::Request> plans = core_.executor->plans();
    std::erase_if(plans, [&](const auto& plan) { return plan.kind != kind; });
    return plans;
  }

  Core core_;
  const UniqueFd directory_{};  // the fake looks at none
  CallContext call_ = Core::By(Core::kAgent);
};

TEST_F(TreesTest, RemovalGoesOnUntilItIsFinished) {
  core_.executor->SetTree(5);
  const auto removed = core_.services->trees.RemoveTree(call_, directory_);
  ASSERT_THAT(removed, IsOk());
  EXPECT_EQ(removed->done, 5U);
  const auto plans = PlansOf(PlanKind::kRemoveTree);
  ASSERT_EQ(plans.size(), 5U);
  EXPECT_EQ(plans[0].body.tree.caller.uid, Core::kAgent);
  // An empty tree takes one plan.
  EXPECT_EQ(core_.services->trees.RemoveTree(call_, directory_)->done, 0U);
  EXPECT_EQ(PlansOf(PlanKind::kRemoveTree).size(), 6U);
}

TEST_F(TreesTest, ChownGoesOnWhereTheLastPlanStopped) {
  core_.executor->SetTree(4);
  const auto changed =
      core_.services->trees.ChownTree(call_, directory_, 100000, 100001);
  ASSERT_THAT(changed, IsOk());
  EXPECT_EQ(changed->done, 4U);
  const auto plans = PlansOf(PlanKind::kChownTree);
  ASSERT_EQ(plans.size(), 4U);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const exec::TreePlan& plan = plans[i].body.tree;
    EXPECT_EQ(plan.uid, 100000U);
    EXPECT_EQ(plan.gid, 100001U);
    EXPECT_EQ(plan.depth, i == 0 ? 0U : 1U);
    EXPECT_EQ(plan.after[0], i);
  }
}

TEST_F(TreesTest, WhomNoRuleAllowsItGetsNoPlanMade) {
  for (const std::uint32_t uid : {Core::kNobody, Core::kAdmin, 0U}) {
    const CallContext call = Core::By(uid);
    EXPECT_THAT(core_.services->trees.RemoveTree(call, directory_),
                IsErr(Code::kPermissionDenied));
    EXPECT_THAT(core_.services->trees.ChownTree(call, directory_, uid, 100000),
                IsErr(Code::kPermissionDenied));
  }
  EXPECT_THAT(core_.services->trees.ChownTree(call_, directory_, 0, 100000),
              IsErr(Code::kPermissionDenied));
  EXPECT_TRUE(core_.executor->plans().empty());
}

TEST_F(TreesTest, CancelEndsItBetweenTwoPlans) {
  core_.executor->SetTree(3);
  *call_.cancelled = true;
  EXPECT_THAT(core_.services->trees.RemoveTree(call_, directory_),
              IsErr(Code::kAborted));
  EXPECT_TRUE(PlansOf(PlanKind::kRemoveTree).empty());
}

TEST_F(TreesTest, AnErrorEndsItAndTheNextCallGoesOn) {
  core_.executor->SetTree(3);
  core_.executor->FailNext("RemoveTree", Code::kBusy, FailWhen::kAfter);
  EXPECT_THAT(core_.services->trees.RemoveTree(call_, directory_),
              IsErr(Code::kBusy));
  EXPECT_EQ(core_.services->trees.RemoveTree(call_, directory_)->done, 2U);
}

}  // namespace
}  // namespace mountd
