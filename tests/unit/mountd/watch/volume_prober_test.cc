// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/watch/volume_prober.h"

#include <memory>

#include "tests/support/fakes/manual_loop.h"
#include "tests/unit/csi-node/node/volumes_fixture.h"

namespace mountd::csi {
namespace {

using std::chrono::milliseconds;

class VolumeProberTest : public VolumesTest {
 protected:
  ~VolumeProberTest() override {
    client().script().UnblockAll();
    strands_.reset();  // first, because their jobs use the prober
  }

  // Registers a plugin that reports bad conditions.
  void Add(const std::string& plugin) {
    FakeCsiClient::Plugin bad = FakeCsiClient::DefaultPlugin(plugin);
    bad.capabilities.node_rpcs = {1, 2, 4};
    bad.stats.condition = VolumeCondition{true, "worn"};
    client().SetPlugin(plugin, bad);
    ASSERT_TRUE(core_.AddPlugin(plugin));
  }
  void PublishVolume(const std::string& plugin, const std::string& volume,
                     std::uint32_t uid = Core::kAgent) {
    PublishSpec spec = Spec(uid == Core::kAgent ? "web" : "other");
    spec.alias = volume;
    spec.plugin = plugin;
    spec.volume_id = volume;
    spec.uid = uid;
    ASSERT_EQ(Outcome(Publish(spec)), "Ok");
  }
  // Begins a round, and waits until the next one is set.
  milliseconds BeginRound() {
    const auto delays = loop_.FireTimers();
    EXPECT_TRUE(loop_.RunUntil([&] { return loop_.timer_count() == 1; }));
    return delays.empty() ? milliseconds() : delays.front();
  }
  bool AwaitCalls(const std::string& volume, std::size_t count) {
    return loop_.RunUntil([&] {
      return client().script().Count("NodeGetVolumeStats " + volume) >= count;
    });
  }
  std::size_t Asked(const std::string& volume) {
    return client().script().Count("NodeGetVolumeStats " + volume);
  }

  ManualLoop loop_;
  WorkerPool pool_{128};
  std::unique_ptr<Strands> strands_ = std::make_unique<Strands>(pool_);
  VolumeProber prober_{{loop_, *strands_, *core_.volumes},
                       milliseconds(60'000)};
};

TEST_F(VolumeProberTest, EachRoundAsksForEachVolume) {
  Add("a");
  PublishVolume("a", "v1");
  PublishVolume("a", "v2");
  prober_.Start();
  const milliseconds pause = BeginRound();
  EXPECT_GE(pause, milliseconds(45'000));
  EXPECT_LE(pause, milliseconds(75'000));
  EXPECT_TRUE(AwaitCalls("a v1", 1));
  EXPECT_TRUE(AwaitCalls("a v2", 1));
  EXPECT_TRUE(loop_.RunUntil([&] { return prober_.idle(); }));
  BeginRound();
  EXPECT_TRUE(AwaitCalls("a v1", 2));
  EXPECT_TRUE(AwaitCalls("a v2", 2));
}

TEST_F(VolumeProberTest, APluginThatHangsHoldsUpNoOther) {
  Add("a");
  Add("b");
  PublishVolume("a", "slow");
  client().script().Block("NodeGetVolumeStats");
  prober_.Start();
  BeginRound();
  ASSERT_TRUE(client().script().AwaitBlocked("NodeGetVolumeStats"));
  PublishVolume("b", "quick");
  BeginRound();
  EXPECT_TRUE(client().script().AwaitBlocked("NodeGetVolumeStats", 2));
  // The lane under way is not begun a second time.
  EXPECT_EQ(Asked("a slow"), 1U);
  EXPECT_EQ(Asked("b quick"), 1U);
}

TEST_F(VolumeProberTest, OneUserHasAFewLanesAndLeavesRoomForOthers) {
  for (int i = 0; i < 8; ++i) {
    const std::string plugin = "p" + std::to_string(i);
    Add(plugin);
    PublishVolume(plugin, "v" + std::to_string(i));
  }
  client().script().Block("NodeGetVolumeStats");
  prober_.Start();
  BeginRound();
  ASSERT_TRUE(client().script().AwaitBlocked("NodeGetVolumeStats",
                                             VolumeProber::kLanesOfUser));
  ASSERT_EQ(Outcome(core_.state->allocations.AddAllocation(
                {"other", Core::kOther, 1, "", AllocationState::kPrepared})),
            "Ok");
  PublishVolume("p7", "of-other", Core::kOther);
  BeginRound();
  EXPECT_TRUE(client().script().AwaitBlocked("NodeGetVolumeStats",
                                             VolumeProber::kLanesOfUser + 1));
  EXPECT_EQ(Asked("p7 of-other"), 1U);
  client().script().UnblockAll();
  for (int i = 0; i < 8; ++i) {
    const std::string index = std::to_string(i);
    EXPECT_TRUE(AwaitCalls("p" + index + " v" + index, 1));
  }
}

// The volume that gave no answer comes last the next time.
TEST_F(VolumeProberTest, AVolumeThatHangsCostsItsLaneOneRound) {
  Add("a");
  PublishVolume("a", "v1");
  PublishVolume("a", "v2");
  client().FailNext("NodeGetVolumeStats", RpcCode::kDeadlineExceeded);
  prober_.Start();
  BeginRound();
  const auto asked = [&] { return Asked("a v1") + Asked("a v2"); };
  EXPECT_TRUE(loop_.RunUntil([&] { return asked() == 1; }));
  const std::string hung = Asked("a v1") == 1 ? "a v1" : "a v2";
  EXPECT_TRUE(loop_.RunUntil([&] { return prober_.idle(); }));
  client().FailNext("NodeGetVolumeStats", RpcCode::kDeadlineExceeded);
  BeginRound();
  EXPECT_TRUE(loop_.RunUntil([&] { return asked() == 2; }));
  EXPECT_EQ(Asked(hung), 1U);
}

}  // namespace
}  // namespace mountd::csi
