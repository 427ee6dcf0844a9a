// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/fault/overlap_oracle.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/fault/operations.h"

namespace mountd::testing {
namespace {

// Returns an oracle for an Unmount of a mount that a BindMount may have made
// already.
OverlapOracle UnmountAndBind() {
  OverlapOracle oracle({IndexOf("Unmount"), IndexOf("BindMountOfAHostVolume")});
  oracle.Learn({{"Ok", true}, {"Ok", true}});
  oracle.Learn({{"NotFound", true}, {"Ok", false}});
  oracle.LearnAlone(1, {"Ok", true});
  return oracle;
}

std::string Told(const OverlapOracle& oracle, const Outcome& outcome, Then then,
                 const std::string& step = "Open") {
  return oracle.Contradiction(outcome, Sharing::kAllocation, then, step);
}

TEST(OverlapOracle, WhatNothingDisturbsIsOneOfTheOrders) {
  const OverlapOracle oracle = UnmountAndBind();
  EXPECT_EQ(Told(oracle, {{"Ok", true}, {"Ok", true}}, Then::kGoesOn), "");
  EXPECT_EQ(Told(oracle, {{"NotFound", true}, {"Ok", false}}, Then::kGoesOn),
            "");
  // Each answer belongs to some order, and the two together to none.
  EXPECT_NE(Told(oracle, {{"Ok", true}, {"Ok", false}}, Then::kGoesOn), "");
  EXPECT_NE(Told(oracle, {{"Ok", true}, {"Busy", true}}, Then::kGoesOn), "");
}

TEST(OverlapOracle, WhatIsCutOffIsNotToldWhatIsNotSo) {
  const OverlapOracle oracle = UnmountAndBind();
  for (const Then then : {Then::kFails, Then::kKilledBefore}) {
    EXPECT_EQ(Told(oracle, {{"Unavailable", true}, {"Ok", true}}, then), "");
    EXPECT_EQ(Told(oracle, {{"NotFound", true}, {"Busy", true}}, then), "");
    EXPECT_NE(Told(oracle, {{"AlreadyExists", true}, {"Ok", true}}, then), "");
    EXPECT_NE(Told(oracle, {{"Ok", false}, {"Ok", true}}, then), "");
    EXPECT_NE(Told(oracle, {{"Unavailable", true}, {"NotFound", true}}, then),
              "");
  }
}

TEST(OverlapOracle, AnAgentThatDiesIsNoExcuseForOthers) {
  const OverlapOracle oracle = UnmountAndBind();
  EXPECT_EQ(Told(oracle, {{"", true}, {"Ok", false}}, Then::kAgentDies), "");
  EXPECT_NE(Told(oracle, {{"", true}, {"Unavailable", true}}, Then::kAgentDies),
            "");
}

TEST(OverlapOracle, TheSameCallMayHaveJoinedTheFirst) {
  const std::size_t one = IndexOf("UnpublishVolume");
  OverlapOracle oracle({one, one});
  oracle.Learn({{"Ok", true}, {"NotFound", true}});
  const Outcome joined = {{"Ok", true}, {"Ok", true}};
  EXPECT_EQ(Told(oracle, joined, Then::kGoesOn), "");
  EXPECT_NE(oracle.Contradiction(joined, Sharing::kNode, Then::kGoesOn, ""),
            "");
}

TEST(OverlapOracle, ATreeThatIsBeingRemovedIsNotItsOwners) {
  OverlapOracle oracle(
      {IndexOf("RemoveTree"), IndexOf("BindMountInADirectory")});
  oracle.Learn({{"Ok", false}, {"Ok", true}});
  oracle.Learn({{"PermissionDenied", true}, {"Ok", true}});
  const Outcome meanwhile = {{"Ok", true}, {"PermissionDenied", true}};
  EXPECT_EQ(Told(oracle, meanwhile, Then::kGoesOn), "");
  EXPECT_NE(oracle.Contradiction(meanwhile, Sharing::kNode, Then::kGoesOn, ""),
            "");
  EXPECT_NE(Told(oracle, {{"Ok", true}, {"Busy", true}}, Then::kGoesOn), "");
}

TEST(OverlapOracle, ARemovalThatFailedLeavesRootsDirectories) {
  OverlapOracle oracle({IndexOf("RemoveTree"), IndexOf("ChownTree")});
  oracle.Learn({{"Ok", true}, {"Ok", true}});
  EXPECT_EQ(Told(oracle, {{"Internal", true}, {"Ok", false}}, Then::kFails),
            "");
  EXPECT_NE(Told(oracle, {{"Ok", true}, {"Ok", false}}, Then::kFails), "");
  EXPECT_NE(Told(oracle, {{"Ok", true}, {"Ok", false}}, Then::kGoesOn), "");
}

TEST(OverlapChoice, IsTheSeedsAlone) {
  const auto text_of = [](const Overlap& overlap) {
    std::string text = NameOf(overlap.sharing);
    for (const std::size_t operation : overlap.operations) {
      text += " " + AllOperations()[operation].name;
    }
    for (const Cut& cut : overlap.cuts) {
      text += " " + std::to_string(cut.process) + "," +
              std::to_string(cut.where) + "," + NameOf(cut.then) + "," +
              std::to_string(cut.error);
    }
    return text;
  };
  std::set<std::string> all;
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    for (std::uint32_t n = 0; n < 10; ++n) {
      all.insert(text_of(ChooseOverlap(seed, 1, n)));
      EXPECT_EQ(text_of(ChooseOverlap(seed, 1, n)),
                text_of(ChooseOverlap(seed, 1, n)));
    }
  }
  EXPECT_EQ(all.size(), 100U) << "some seeds choose the same";
}

}  // namespace
}  // namespace mountd::testing
