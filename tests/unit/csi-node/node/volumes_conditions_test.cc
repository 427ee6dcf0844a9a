// SPDX-License-Identifier: LGPL-2.1-or-later
// Conditions that plugins report of their volumes.
#include <future>

#include "mountd/base/current_user.h"
#include "tests/support/eventually.h"
#include "tests/unit/csi-node/node/volumes_fixture.h"

namespace mountd::csi {
namespace {

class ConditionsTest : public VolumesTest {
 protected:
  void SetUp() override {
    VolumesTest::SetUp();
    ASSERT_EQ(Outcome(Publish()), "Ok");
    Report(false, "");
  }
  void Report(bool abnormal, const std::string& message,
              const std::vector<int>& node_rpcs = {1, 2, 4}) {
    FakeCsiClient::Plugin plugin = FakeCsiClient::DefaultPlugin("nfs");
    plugin.capabilities.node_rpcs = node_rpcs;
    plugin.stats.condition = VolumeCondition{abnormal, message};
    client().SetPlugin("nfs", plugin);
    if (node_rpcs != known_rpcs_) {
      // The supervisor reads the capabilities when it connects.
      core_.plugins->ReconnectAll();
      known_rpcs_ = node_rpcs;
      ASSERT_TRUE(testing::Eventually([&] {
        return core_.plugins->Get("nfs")->capabilities.node_rpcs == node_rpcs;
      }));
    }
  }
  // Asks for the condition, and returns the news.
  Texts Ask() {
    EXPECT_TRUE(core_.volumes->AskCondition(kKey));
    return core_.TakeConditions();
  }

  std::vector<int> known_rpcs_;
};

TEST_F(ConditionsTest, OnlyNewsAreTold) {
  EXPECT_EQ(core_.volumes->ConditionOf(kKey), std::nullopt);
  EXPECT_EQ(Ask(), Texts{});  // a first good condition is no news
  EXPECT_EQ(core_.volumes->ConditionOf(kKey), (VolumeCondition{false, ""}));
  Report(true, "its disk is slow");
  EXPECT_EQ(Ask(), Texts{"v1 abnormal: its disk is slow"});
  EXPECT_EQ(Ask(), Texts{});
  Report(true, "its disk is gone");
  EXPECT_EQ(Ask(), Texts{"v1 abnormal: its disk is gone"});
  Report(false, "all is well");
  EXPECT_EQ(Ask(), Texts{"v1 normal: all is well"});
  Report(false, "all is very well");
  EXPECT_EQ(Ask(), Texts{});
  EXPECT_EQ(core_.volumes->ConditionOf(kKey),
            (VolumeCondition{false, "all is very well"}));
}

TEST_F(ConditionsTest, AFirstBadConditionIsNews) {
  Report(true, "worn");
  EXPECT_EQ(Ask(), Texts{"v1 abnormal: worn"});
}

TEST_F(ConditionsTest, APluginThatOffersNoConditionsIsNotAsked) {
  for (const auto& rpcs : {std::vector{1, 2}, std::vector{1, 4}}) {
    Report(true, "worn", rpcs);
    const std::size_t before = Calls("NodeGetVolumeStats");
    EXPECT_EQ(Ask(), Texts{});
    EXPECT_EQ(Calls("NodeGetVolumeStats"), before);
    EXPECT_TRUE(core_.volumes->ListReporting()->empty());
  }
}

// A plugin of CSI 1.13 has no VOLUME_CONDITION.
TEST_F(ConditionsTest, VolumeHealthComesFirst) {
  FakeCsiClient::Plugin plugin = FakeCsiClient::DefaultPlugin("nfs");
  plugin.capabilities.node_rpcs = {1, 2, 4, 7};
  plugin.health = {true, "DATA_LOSS"};
  client().SetPlugin("nfs", plugin);
  core_.plugins->ReconnectAll();
  ASSERT_TRUE(testing::Eventually([&] {
    return core_.plugins->Get("nfs")->capabilities.node_rpcs.size() == 4;
  }));
  EXPECT_EQ(Ask(), Texts{"v1 abnormal: DATA_LOSS"});
  EXPECT_EQ(Calls("NodeGetVolumeStats"), 0U);
  client().FailNext("NodeGetVolumeHealth", RpcCode::kDeadlineExceeded);
  EXPECT_FALSE(core_.volumes->AskCondition(kKey));
}

TEST_F(ConditionsTest, AVolumeWithACallUnderWayIsNotAsked) {
  ASSERT_EQ(Ask(), Texts{});
  Report(true, "worn");
  client().script().Block("NodeExpandVolume");
  Report(true, "worn", {1, 2, 3, 4});
  auto expansion = std::async(std::launch::async, [&] {
    return Outcome(
        core_.volumes->Expand({"web", "alias", 1, 0}, UniqueFd(), nullptr));
  });
  ASSERT_TRUE(client().script().AwaitBlocked("NodeExpandVolume"));
  const std::size_t before = Calls("NodeGetVolumeStats");
  EXPECT_EQ(Ask(), Texts{});
  EXPECT_EQ(Calls("NodeGetVolumeStats"), before);
  client().script().Unblock("NodeExpandVolume");
  EXPECT_EQ(expansion.get(), "Ok");
  EXPECT_EQ(Ask(), Texts{"v1 abnormal: worn"});
}

TEST_F(ConditionsTest, AnAnswerAboutAVolumeThatHasGoneIsNoNews) {
  Report(true, "worn");
  client().script().Block("NodeGetVolumeStats");
  auto asked = std::async(std::launch::async, [&] { return Ask(); });
  ASSERT_TRUE(client().script().AwaitBlocked("NodeGetVolumeStats"));
  ASSERT_EQ(Outcome(Unpublish()), "Ok");
  client().script().Unblock("NodeGetVolumeStats");
  EXPECT_EQ(asked.get(), Texts{});
  EXPECT_EQ(core_.volumes->ConditionOf(kKey), std::nullopt);
}

TEST_F(ConditionsTest, OnlyATimeOutIsNoAnswer) {
  client().FailNext("NodeGetVolumeStats", RpcCode::kDeadlineExceeded);
  EXPECT_FALSE(core_.volumes->AskCondition(kKey));
  client().FailNext("NodeGetVolumeStats", RpcCode::kInternal);
  EXPECT_TRUE(core_.volumes->AskCondition(kKey));
  EXPECT_EQ(core_.volumes->ConditionOf(kKey), std::nullopt);
}

TEST_F(ConditionsTest, TheConditionGoesWithTheVolume) {
  Report(true, "worn");
  ASSERT_EQ(Ask(), Texts{"v1 abnormal: worn"});
  ASSERT_EQ(core_.volumes->ListReporting()->size(), 1U);
  EXPECT_EQ(core_.volumes->ListReporting()->front().uid, Core::kAgent);
  ASSERT_TRUE(core_.volumes->ConditionOf(kKey).has_value());
  ASSERT_EQ(Outcome(Unpublish()), "Ok");
  EXPECT_TRUE(core_.volumes->ListReporting()->empty());
  EXPECT_EQ(core_.volumes->ConditionOf(kKey), std::nullopt);
}

// A subscriber who was told that a volume is abnormal hears of its end, too.
TEST_F(ConditionsTest, TheConditionOutlivesAnAbsenceOfThePlugin) {
  Report(true, "worn");
  ASSERT_EQ(Ask(), Texts{"v1 abnormal: worn"});
  ASSERT_EQ(Outcome(core_.plugins->Unregister("nfs", {.force = true})), "Ok");
  EXPECT_TRUE(core_.volumes->ListReporting()->empty());
  EXPECT_TRUE(core_.volumes->ConditionOf(kKey).has_value());
  FakeCsiClient::Plugin plugin = FakeCsiClient::DefaultPlugin("nfs");
  plugin.capabilities.node_rpcs = {1, 2, 4};
  plugin.stats.condition = VolumeCondition{false, "mended"};
  client().SetPlugin("nfs", plugin);
  ASSERT_EQ(
      Outcome(core_.plugins->Register({"nfs", "node", Core::kAgent, "", ""})),
      "Ok");
  ASSERT_TRUE(testing::Eventually([&] {
    return core_.plugins->Get("nfs")->state == PluginState::kHealthy;
  }));
  EXPECT_EQ(core_.volumes->ListReporting()->size(), 1U);
  EXPECT_EQ(Ask(), Texts{"v1 normal: mended"});
}

TEST_F(ConditionsTest, TheConditionGoesIfThePluginReportsNoneAnyMore) {
  ASSERT_EQ(Ask(), Texts{});
  Report(false, "", {1, 2});
  EXPECT_TRUE(testing::Eventually([&] {
    EXPECT_TRUE(core_.volumes->ListReporting()->empty());
    return !core_.volumes->ConditionOf(kKey).has_value();
  }));
}

TEST(RpcSlotsRoomTest, AQuestionTakesTheOnlySlotWhileNoCallIsUnderWay) {
  RpcSlots slots(1);
  const CurrentUser user(1000);
  EXPECT_TRUE(slots.HasRoom("nfs"));
  const CurrentUser other(1001);
  const RpcSlots::Slot slot(slots, "nfs");
  EXPECT_FALSE(slots.HasRoom("nfs"));
}

TEST(RpcSlotsRoomTest, AQuestionLeavesTheLastSlotToCalls) {
  RpcSlots slots(2);
  const CurrentUser user(1000);
  EXPECT_TRUE(slots.HasRoom("nfs"));
  {
    const RpcSlots::Slot slot(slots, "nfs");
    EXPECT_FALSE(slots.HasRoom("nfs"));
    EXPECT_TRUE(slots.HasRoom("other"));
    const CurrentUser other(1001);
    EXPECT_TRUE(slots.HasRoom("nfs"));
  }
  EXPECT_TRUE(slots.HasRoom("nfs"));
}

}  // namespace
}  // namespace mountd::csi
