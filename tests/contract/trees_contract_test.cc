// SPDX-License-Identifier: LGPL-2.1-or-later
// Plans on trees of files, which do a part of the work each.
#include "mountd/plan/tree_plans.h"
#include "tests/contract/machine.h"

namespace mountd::testing {
namespace {

class TreesContract : public ExecutorContract {
 protected:
  // Root passes the directory, which is root's.
  static exec::TreePlan Plan() {
    exec::TreePlan plan;
    plan.caller.gid_count = 1;
    plan.uid = 100'000;
    plan.gid = 100'000;
    return plan;
  }

  // Repeats the plan with the position of the last answer until the work is
  // finished. Returns how many files were done.
  template <typename Do>
  std::uint64_t UntilFinished(const Do& do_some) {
    exec::TreePlan plan = Plan();
    std::uint64_t done = 0;
    constexpr int kMostPlans = 1000;
    for (int i = 0; i < kMostPlans; ++i) {
      const Result<exec::TreeReply> reply = do_some(plan);
      EXPECT_THAT(reply, IsOk());
      if (!reply) {
        return done;
      }
      done += reply->done;
      if (reply->finished != 0) {
        return done;
      }
      plan.depth = reply->depth;
      plan.after = reply->after;
    }
    ADD_FAILURE() << "the work does not end";
    return done;
  }
};

TEST_F(TreesContract, RemovalTakesAllAndSucceedsAgain) {
  constexpr std::uint64_t kFiles = 20;
  const UniqueFd tree = machine().Tree(kFiles);
  const auto remove = [&](const exec::TreePlan& plan) {
    return executor().RemoveTree(plan, tree.get());
  };
  EXPECT_EQ(UntilFinished(remove), kFiles);
  EXPECT_EQ(UntilFinished(remove), 0U);
}

TEST_F(TreesContract, ChownGivesAllAndAgainTheSame) {
  constexpr std::uint64_t kFiles = 20;
  const UniqueFd tree = machine().Tree(kFiles);
  const auto chown = [&](const exec::TreePlan& plan) {
    return executor().ChownTree(plan, tree.get());
  };
  EXPECT_EQ(UntilFinished(chown), kFiles);
  // A file that has the owner already counts as given.
  EXPECT_EQ(UntilFinished(chown), kFiles);
}

TEST_F(TreesContract, AnEmptyTreeIsFinishedAtOnce) {
  const UniqueFd tree = machine().Tree(0);
  ASSERT_OK_AND_ASSIGN(const exec::TreeReply removed,
                       executor().RemoveTree(Plan(), tree.get()));
  EXPECT_EQ(removed.finished, 1U);
  EXPECT_EQ(removed.done, 0U);
  ASSERT_OK_AND_ASSIGN(const exec::TreeReply given,
                       executor().ChownTree(Plan(), tree.get()));
  EXPECT_EQ(given.finished, 1U);
  EXPECT_EQ(given.done, 0U);
}

}  // namespace
}  // namespace mountd::testing
