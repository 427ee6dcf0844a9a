// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Volumes that broke with their plugin's end, and the size and health of
// volumes in use.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>

#include "tests/unit/csi-node/node/volumes_fixture.h"

namespace mountd::csi {
namespace {

class RestoreTest : public VolumesTest {
 protected:
  void SetUp() override {
    VolumesTest::SetUp();
    VolumeEvents events;
    events.on_health = [this](const VolumeRecord& volume,
                              exec::MountHealth health,
                              const std::string& reason) {
      told_.push_back(
          volume.volume_id + " " +
          (health == exec::MountHealth::kDead ? "dead: " + reason : "healthy"));
    };
    events.on_secrets_needed = [this](const VolumeRecord& volume,
                                      const PublicationRecord& user) {
      told_.push_back(volume.volume_id + " needs secrets for " +
                      user.allocation + "/" + user.alias);
    };
    volumes_ = std::make_unique<Volumes>(core_.config, executor(), executor(),
                                         client(), *core_.plugins, *core_.state,
                                         events);
  }
  static PublishSpec Plain(const std::string& allocation = "web") {
    PublishSpec spec = Spec(allocation);
    spec.capability.mount_flags.clear();
    spec.publish_context = {{"device", "1"}};
    return spec;
  }
  std::string Part(const std::string& allocation = "web") {
    return "nfs/publish/" + allocation + "/" + kKey.str();
  }
  void Die(const std::string& allocation = "web") {
    executor().SetHealth(Part(allocation), exec::MountHealth::kDead);
  }

  std::unique_ptr<Volumes> volumes_;
  Texts told_;
};

TEST_F(RestoreTest, WhatIsAliveIsLeftAlone) {
  ASSERT_EQ(MessageOf(volumes_->Publish(Plain(), UniqueFd(), nullptr)), "Ok");
  client().script().Forget();
  const auto restored = volumes_->RestoreDead("nfs");
  ASSERT_EQ(MessageOf(restored), "Ok");
  EXPECT_TRUE(restored->restored.empty());
  EXPECT_EQ(Calls("Node"), 0U);
  EXPECT_TRUE(told_.empty());
}

TEST_F(RestoreTest, AnExecutorThatDiesIsNotTheVolumesEnd) {
  ASSERT_EQ(MessageOf(volumes_->Publish(Plain(), UniqueFd(), nullptr)), "Ok");
  client().script().Forget();
  // The next executor answers.
  executor().FailNext("ProbeVolume", Code::kUnavailable);
  ASSERT_EQ(Outcome(volumes_->RestoreDead("nfs")), "Ok");
  // The volume is not taken as dead either while there is no executor.
  executor().FailNext("ProbeVolume", Code::kUnavailable, FailWhen::kBefore,
                      CallScript<Error>::kAlways);
  ASSERT_EQ(Outcome(volumes_->RestoreDead("nfs")), "Ok");
  EXPECT_EQ(Calls("Node"), 0U);
  EXPECT_EQ(Publication()->state, PublicationState::kPublished);
  EXPECT_TRUE(told_.empty());
  executor().script().Clear();
  executor().FailNext("ProbeVolume", Code::kUnavailable);
  Die();
  EXPECT_EQ(volumes_->RestoreDead("nfs")->restored.size(), 1U);
}

TEST_F(RestoreTest, WhatDiedIsStagedAndPublishedAnew) {
  for (const char* allocation : {"web", "db"}) {
    ASSERT_EQ(
        MessageOf(volumes_->Publish(Plain(allocation), UniqueFd(), nullptr)),
        "Ok");
  }
  const std::uint64_t before = Publication()->mount_id;
  Die("web");
  Die("db");
  client().script().Forget();
  const auto restored = volumes_->RestoreDead("nfs");
  ASSERT_EQ(MessageOf(restored), "Ok");
  ASSERT_EQ(restored->restored.size(), 2U);
  EXPECT_EQ(Calls("NodeUnpublishVolume"), 2U);
  EXPECT_EQ(Calls("NodeUnstageVolume"), 1U);
  EXPECT_EQ(Calls("NodeStageVolume"), 1U);
  EXPECT_EQ(Calls("NodePublishVolume"), 2U);
  EXPECT_EQ(client().last_stage().publish_context, Plain().publish_context);
  EXPECT_EQ(Publication()->state, PublicationState::kPublished);
  EXPECT_NE(Publication()->mount_id, before);
  EXPECT_EQ(told_,
            (Texts{"v1 dead: its file system does not answer", "v1 healthy"}));
}

TEST_F(RestoreTest, OthersThatLiveKeepTheStaging) {
  for (const char* allocation : {"web", "db"}) {
    ASSERT_EQ(
        MessageOf(volumes_->Publish(Plain(allocation), UniqueFd(), nullptr)),
        "Ok");
  }
  const std::uint64_t living = Publication("db")->mount_id;
  Die("web");
  ASSERT_EQ(volumes_->RestoreDead("nfs")->restored.size(), 1U);
  EXPECT_EQ(Calls("NodeUnstageVolume"), 0U);
  EXPECT_EQ(Publication("db")->mount_id, living);
}

TEST_F(RestoreTest, WhatTakesSecretsOrFlagsWaitsForItsAgent) {
  const UniqueFd secrets(memfd_create("secrets", MFD_CLOEXEC));
  ASSERT_EQ(MessageOf(volumes_->Publish(Plain(), secrets, nullptr)), "Ok");
  Die();
  client().script().Forget();
  EXPECT_TRUE(volumes_->RestoreDead("nfs")->restored.empty());
  // A plugin cannot take a dead mount for its own, so mountd unpublishes it
  // first.
  EXPECT_EQ(Calls("NodeUnpublishVolume"), 1U);
  EXPECT_EQ(Calls("NodeUnstageVolume"), 1U);
  EXPECT_EQ(Calls("NodeStageVolume") + Calls("NodePublishVolume"), 0U);
  EXPECT_EQ(told_, (Texts{"v1 dead: its file system does not answer",
                          "v1 needs secrets for web/alias"}));
  EXPECT_EQ(Publication()->state, PublicationState::kUncertain);
  ASSERT_EQ(MessageOf(volumes_->Publish(Plain(), secrets, nullptr)), "Ok");
  EXPECT_EQ(Publication()->state, PublicationState::kPublished);
  EXPECT_TRUE(client().last_had_secrets());
}

TEST_F(RestoreTest, WhatWasUnderWayWhenMountdEndedIsFinished) {
  client().FailNext("NodePublishVolume", RpcCode::kDeadlineExceeded,
                    FailWhen::kBefore, CallScript<RpcError>::kAlways);
  EXPECT_EQ(Outcome(volumes_->Publish(Plain(), UniqueFd(), nullptr)),
            "DeadlineExceeded");
  client().script().Clear();
  volumes_ = std::make_unique<Volumes>(core_.config, executor(), executor(),
                                       client(), *core_.plugins, *core_.state);
  ASSERT_EQ(MessageOf(volumes_->Recover()), "Ok");
  ASSERT_EQ(volumes_->RestoreDead("nfs")->restored.size(), 1U);
  EXPECT_EQ(Publication()->state, PublicationState::kPublished);
}

TEST_F(RestoreTest, TasksMountsOfItAreSwapped) {
  ASSERT_EQ(MessageOf(volumes_->Publish(Plain(), UniqueFd(), nullptr)), "Ok");
  BindMountRequest spec;
  spec.allocation = "web";
  spec.task = "task";
  spec.name = "data";
  spec.wish.source_kind = exec::SourceKind::kPublishedVolume;
  spec.wish.source = "alias";
  // The owner's own ids, which the executor grants to whom the plan names.
  spec.wish.ids.count = 1;
  spec.wish.ids.extents[0] = {Core::kAgent, 100999, 1};
  const CallContext call = Core::By(Core::kAgent);
  ASSERT_EQ(MessageOf(core_.services->allocations.PrepareAllocation(
                call, NameOf("web"), "")),
            "Ok");
  ASSERT_EQ(MessageOf(core_.services->mounts.BindMount(call, spec)), "Ok");
  const std::uint64_t before = executor().MountIdOf("web/task/data");
  Die();
  const auto restored = volumes_->RestoreDead("nfs");
  ASSERT_EQ(restored->restored.size(), 1U);
  ASSERT_EQ(MessageOf(core_.services->volumes.RepairMountsOf(
                restored->restored.at(0))),
            "Ok");
  EXPECT_NE(executor().MountIdOf("web/task/data"), before);
  EXPECT_NE(executor().MountIdOf("web/task/data"), 0U);
  const auto plans = executor().plans();
  const auto swap = std::find_if(
      plans.rbegin(), plans.rend(),
      [](const auto& plan) { return plan.kind == exec::PlanKind::kAttach; });
  ASSERT_NE(swap, plans.rend());
  EXPECT_EQ(swap->body.attach.caller.uid, Core::kAgent);
  EXPECT_EQ(swap->body.attach.caller.gids[0], Core::kAgent);
}

// ---- In use ----

class InUseTest : public VolumesTest {
 protected:
  void SetUp() override {
    VolumesTest::SetUp();
    FakeCsiClient::Plugin plugin = FakeCsiClient::DefaultPlugin("big");
    plugin.capabilities.node_rpcs = {1, 2, 3, 4};
    plugin.stats.usage = {{60, 100, 40, false}};
    plugin.stats.condition = VolumeCondition{true, "its disk is slow"};
    client().SetPlugin("big", plugin);
    ASSERT_TRUE(core_.AddPlugin("big"));
  }
  Result<PublishedVolume> PublishOf(const std::string& plugin) {
    PublishSpec spec = Spec();
    spec.plugin = plugin;
    return Publish(spec);
  }
  Result<std::int64_t> Expand(std::int64_t required, std::int64_t limit = 0) {
    return core_.volumes->Expand({"web", "alias", required, limit}, UniqueFd(),
                                 nullptr);
  }
};

TEST_F(InUseTest, OnlyWhatIsPublishedHasASize) {
  EXPECT_EQ(Outcome(Expand(1)), "NotFound");
  EXPECT_EQ(Outcome(core_.volumes->Stats("web", "alias")), "NotFound");
}

TEST_F(InUseTest, WhatThePluginDoesNotOfferIsNotSupported) {
  ASSERT_EQ(MessageOf(PublishOf("nfs")), "Ok");
  EXPECT_EQ(Outcome(Expand(1)), "NotSupported");
  EXPECT_EQ(Outcome(core_.volumes->Stats("web", "alias")), "NotSupported");
}

// The caller itself repeats such a call, so mountd makes one RPC, and reports
// its error.
TEST_F(InUseTest, StatsThatCannotBeHadAreNotTriedAgain) {
  ASSERT_EQ(MessageOf(PublishOf("big")), "Ok");
  client().FailNext("NodeGetVolumeStats", RpcCode::kUnavailable);
  EXPECT_EQ(Outcome(core_.volumes->Stats("web", "alias")), "Unavailable");
  EXPECT_EQ(Calls("NodeGetVolumeStats"), 1U);
  EXPECT_EQ(Outcome(core_.volumes->Stats("web", "alias")), "Ok");
}

TEST_F(InUseTest, WhatIsUnpublishedMeanwhileIsNotFound) {
  ASSERT_EQ(MessageOf(PublishOf("big")), "Ok");
  client().script().Block("NodeGetVolumeStats");
  client().FailNext("NodeGetVolumeStats", RpcCode::kUnknown);
  auto stats = std::async(std::launch::async, [&] {
    return Outcome(core_.volumes->Stats("web", "alias"));
  });
  ASSERT_TRUE(client().script().AwaitBlocked("NodeGetVolumeStats"));
  EXPECT_EQ(MessageOf(Unpublish()), "Ok");
  client().script().Unblock("NodeGetVolumeStats");
  EXPECT_EQ(stats.get(), "NotFound");
}

// The condition means something only if the plugin has the capability.
TEST_F(InUseTest, AConditionThatIsNotOfferedIsNotTold) {
  FakeCsiClient::Plugin plugin = FakeCsiClient::DefaultPlugin("terse");
  plugin.capabilities.node_rpcs = {1, 2};
  plugin.stats.usage = {{60, 100, 40, false}};
  plugin.stats.condition = VolumeCondition{true, "its disk is slow"};
  client().SetPlugin("terse", plugin);
  ASSERT_TRUE(core_.AddPlugin("terse"));
  ASSERT_EQ(MessageOf(PublishOf("terse")), "Ok");
  const auto stats = core_.volumes->Stats("web", "alias");
  ASSERT_EQ(MessageOf(stats), "Ok");
  EXPECT_EQ(stats->usage.size(), 1U);
  EXPECT_FALSE(stats->condition.has_value());
}

// A plugin that runs is not away only because mountd has just started.
TEST_F(InUseTest, ACallAfterAStartWaitsForThePlugin) {
  ASSERT_EQ(MessageOf(PublishOf("big")), "Ok");
  const std::function<std::string()> calls[] = {
      [&] { return Outcome(Expand(1 << 20)); },
      [&] { return Outcome(core_.volumes->Stats("web", "alias")); }};
  for (const auto& call : calls) {
    // The supervisors of before have ended, so that none of them blocks.
    core_.Restart();
    executor().script().Block("ConnectPlugin");
    ASSERT_EQ(MessageOf(core_.Recover()), "Ok");
    auto told = std::async(std::launch::async, call);
    ASSERT_TRUE(executor().script().AwaitBlocked("ConnectPlugin"));
    EXPECT_EQ(told.wait_for(std::chrono::milliseconds(20)),
              std::future_status::timeout);
    executor().script().Unblock("ConnectPlugin");
    EXPECT_EQ(told.get(), "Ok");
  }
}

TEST_F(InUseTest, AVolumeGrowsAndTellsItsStats) {
  ASSERT_EQ(MessageOf(PublishOf("big")), "Ok");
  const auto size = Expand(1 << 20);
  ASSERT_EQ(MessageOf(size), "Ok");
  EXPECT_EQ(*size, 1 << 20);
  EXPECT_EQ(Outcome(Expand(2, 1)), "InvalidArgument");
  EXPECT_EQ(Outcome(Expand(-1)), "InvalidArgument");
  client().FailNext("NodeExpandVolume", RpcCode::kOutOfRange);
  EXPECT_EQ(Outcome(Expand(1)), "InvalidArgument");
  const auto stats = core_.volumes->Stats("web", "alias");
  ASSERT_EQ(MessageOf(stats), "Ok");
  ASSERT_EQ(stats->usage.size(), 1U);
  EXPECT_EQ(stats->usage[0].total, 100);
  EXPECT_TRUE(stats->condition.value().abnormal);
}

}  // namespace
}  // namespace mountd::csi
