// SPDX-License-Identifier: LGPL-2.1-or-later
// mountd asks a plugin again for what the plugin says of this node.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "csi-node/node/plugin_events.h"
#include "tests/support/eventually.h"
#include "tests/support/fakes/core.h"
#include "tests/support/outcome.h"
#include "tests/unit/csi-node/node/await_status.h"

namespace mountd::csi {
namespace {

Config WithProbesEach(std::chrono::milliseconds pause) {
  Config config = Core::DefaultConfig();
  config.timeouts.probe_ready = pause;
  return config;
}

void Say(Core& core, const NodeInfo& node) {
  FakeCsiClient::Plugin plugin = FakeCsiClient::DefaultPlugin("nfs");
  plugin.node = node;
  plugin.capabilities.controller_rpcs = {1, 2};
  core.client->SetPlugin("nfs", plugin);
}

bool AwaitMaxVolumes(Core& core, std::int64_t most) {
  return AwaitStatus(*core.plugins, "nfs", [&](const PluginStatus& status) {
    return status.node.max_volumes == most;
  });
}

std::size_t Questions(Core& core) {
  return core.client->script().Count("NodeGetInfo");
}

TEST(NodeInfoTest, AHealthyPluginIsAskedNowAndThen) {
  Core core(WithProbesEach(std::chrono::milliseconds(2)));
  Say(core, {"n1", 10, {}});
  ASSERT_TRUE(core.AddPlugin("nfs"));
  Say(core, {"n1", 16, {{"zone", "a"}}});
  EXPECT_TRUE(AwaitMaxVolumes(core, 16));
  EXPECT_EQ(core.plugins->Get("nfs")->generation, 1U);
  EXPECT_EQ(core.plugins->Get("nfs")->reason, "");
  // The next start knows it.
  EXPECT_TRUE(testing::Eventually([&] {
    return core.state->plugins.ListFingerprints()->begin()->second.node ==
           NodeInfo{"n1", 16, {{"zone", "a"}}};
  }));
}

TEST(NodeInfoTest, AnAnswerThatFailsOrHasNoIdChangesNothing) {
  Core core(WithProbesEach(std::chrono::milliseconds(2)));
  Say(core, {"n1", 10, {}});
  ASSERT_TRUE(core.AddPlugin("nfs"));
  core.client->script().FailNext("NodeGetInfo", {RpcCode::kInternal, "why"},
                                 FailWhen::kBefore, 2);
  const std::size_t before = Questions(core);
  ASSERT_TRUE(core.client->script().AwaitCalls("NodeGetInfo", before + 3));
  Say(core, {"", 11, {}});
  ASSERT_TRUE(
      core.client->script().AwaitCalls("NodeGetInfo", Questions(core) + 2));
  EXPECT_EQ(core.plugins->Get("nfs")->node, (NodeInfo{"n1", 10, {}}));
  EXPECT_EQ(core.events.All(), std::vector<std::string>{"nfs healthy 1"});
}

TEST(NodeInfoTest, AnIdThatComesAndGoesPushesOutNoOther) {
  Core core(WithProbesEach(std::chrono::milliseconds(2)));
  Say(core, {"n0", 1, {}});
  ASSERT_TRUE(core.AddPlugin("nfs"));
  std::int64_t most = 1;
  for (std::size_t i = 0; i < PluginInstance::kMostFormerNodeIds; ++i) {
    for (const char* id : {"n1", "n2"}) {
      Say(core, {id, ++most, {}});
      ASSERT_TRUE(AwaitMaxVolumes(core, most));
    }
  }
  EXPECT_EQ(core.plugins->Get("nfs")->former_node_ids,
            (std::vector<std::string>{"n1", "n0"}));
}

class NodeInfoDoubtTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Say(core_, {"n1", 10, {}});
    ASSERT_TRUE(core_.AddPlugin("nfs", "monolith"));
    ASSERT_EQ(Outcome(core_.state->allocations.AddAllocation(
                  {"web", Core::kAgent, 1, "", AllocationState::kPrepared})),
              "Ok");
    Say(core_, {"n1", 8, {}});
  }
  std::string Publish() {
    PublishSpec spec;
    spec.allocation = "web";
    spec.alias = "alias";
    spec.plugin = "nfs";
    spec.volume_id = "v1";
    spec.uid = Core::kAgent;
    return Outcome(core_.volumes->Publish(spec, UniqueFd(), nullptr));
  }

  // No probe and no ordinary question comes in time.
  Core core_{WithProbesEach(std::chrono::hours(1))};
};

TEST_F(NodeInfoDoubtTest, AVolumeThatDoesNotFitIsReasonToAsk) {
  for (const char* rpc : {"NodeStageVolume", "NodePublishVolume"}) {
    SCOPED_TRACE(rpc);
    Say(core_, {"n1", 9, {}});
    core_.client->FailNext(rpc, RpcCode::kInternal);
    EXPECT_EQ(Publish(), "Internal");
    const std::size_t before = Questions(core_);
    core_.client->FailNext(rpc, RpcCode::kResourceExhausted);
    EXPECT_EQ(Publish(), "Ok");
    EXPECT_TRUE(core_.client->script().AwaitCalls("NodeGetInfo", before + 1));
    EXPECT_TRUE(AwaitMaxVolumes(core_, 9));
    ASSERT_EQ(Outcome(core_.volumes->Unpublish("web", "alias")), "Ok");
  }
}

TEST_F(NodeInfoDoubtTest, SoIsAVolumeThatCannotBeAttached) {
  core_.client->SetController([](const ControllerCall&) {
    return RpcResult<std::string>(std::string("{}"));
  });
  const UniqueFd none;
  const CancelToken never;
  core_.client->FailNext("ControllerPublishVolume",
                         RpcCode::kResourceExhausted);
  EXPECT_EQ(Outcome(core_.controller->Publish(
                "nfs", {"v1", "n1", {}, false, {}}, {none, never})),
            "ResourceExhausted");
  EXPECT_TRUE(AwaitMaxVolumes(core_, 8));
}

// The volume is attached to the id that this node had then.
TEST_F(NodeInfoDoubtTest, UnderAFormerIdAVolumeInUseIsNotDetached) {
  core_.client->SetController([](const ControllerCall&) {
    return RpcResult<std::string>(std::string("{}"));
  });
  const UniqueFd none;
  const CancelToken never;
  const auto detach = [&](const char* node) {
    return Outcome(
        core_.controller->Unpublish("nfs", {"v1", node}, {none, never}));
  };
  ASSERT_EQ(Publish(), "Ok");
  Say(core_, {"n2", 8, {}});
  core_.plugins->DoubtNodeInfo("nfs");
  ASSERT_TRUE(AwaitMaxVolumes(core_, 8));
  EXPECT_EQ(detach("n1"), "Busy");
  EXPECT_EQ(detach("n2"), "Busy");
  EXPECT_EQ(detach("n3"), "Ok");
}

// Another mountd knows to which ids the volume may be attached, too.
TEST_F(NodeInfoDoubtTest, AFormerIdOutlivesMountd) {
  core_.client->SetController([](const ControllerCall&) {
    return RpcResult<std::string>(std::string("{}"));
  });
  ASSERT_EQ(Publish(), "Ok");
  Say(core_, {"n2", 8, {}});
  core_.plugins->DoubtNodeInfo("nfs");
  ASSERT_TRUE(AwaitMaxVolumes(core_, 8));
  for (int i = 0; i < 2; ++i) {
    core_.Restart();
    ASSERT_EQ(Outcome(core_.Recover()), "Ok");
    ASSERT_TRUE(AwaitStatus(*core_.plugins, "nfs", [](const auto& status) {
      return status.state == PluginState::kHealthy;
    }));
  }
  EXPECT_EQ(core_.plugins->Get("nfs")->former_node_ids,
            std::vector<std::string>{"n1"});
  const UniqueFd none;
  const CancelToken never;
  EXPECT_EQ(
      Outcome(core_.controller->Unpublish("nfs", {"v1", "n1"}, {none, never})),
      "Busy");
  EXPECT_EQ(
      Outcome(core_.controller->Unpublish("nfs", {"v1", "n3"}, {none, never})),
      "Ok");
}

// Another instance of the plugin serves the node under another id, as after an
// upgrade. The volume stays attached to the id of the first instance.
class NodeInfoInstancesTest : public NodeInfoDoubtTest {
 protected:
  void SetUp() override {
    NodeInfoDoubtTest::SetUp();
    core_.client->SetController([](const ControllerCall&) {
      return RpcResult<std::string>(std::string("{}"));
    });
    ASSERT_EQ(Outcome(core_.state->allocations.AddAllocation(
                  {"plug", Core::kAgent, 1, "", AllocationState::kPrepared})),
              "Ok");
    ASSERT_EQ(Publish(), "Ok");
    Say(core_, {"n2", 8, {}});
  }
  void AddSecond() {
    ASSERT_EQ(Outcome(core_.plugins->Register(
                  {"nfs", "monolith", Core::kAgent, "plug", ""})),
              "Ok");
    ASSERT_TRUE(AwaitMaxVolumes(core_, 8));
  }
  std::string Detach(const char* node) {
    const UniqueFd none;
    const CancelToken never;
    return Outcome(
        core_.controller->Unpublish("nfs", {"v1", node}, {none, never}));
  }
};

TEST_F(NodeInfoInstancesTest, TheIdOfAnOlderInstanceIsThisNodes) {
  AddSecond();
  EXPECT_EQ(core_.plugins->Get("nfs")->node.node_id, "n2");
  EXPECT_EQ(Detach("n1"), "Busy");
  EXPECT_EQ(Detach("n2"), "Busy");
  EXPECT_EQ(Detach("n3"), "Ok");
}

// An instance that has not said its id may have attached the volume under any.
TEST(PluginStatusTest, ANodeInstanceWithoutAnIdMayCallThisNodeAnything) {
  PluginInstance known;
  known.record.type = "node";
  known.node.node_id = "n1";
  PluginInstance unknown;
  unknown.record.type = "node";
  PluginInstance controller;
  controller.record.type = "controller";
  EXPECT_TRUE(StatusOf({unknown, known}).MayCallThisNode("n3"));
  EXPECT_FALSE(StatusOf({controller, known}).MayCallThisNode("n3"));
  EXPECT_TRUE(StatusOf({controller}).MayCallThisNode("n3"));
}

TEST_F(NodeInfoInstancesTest, TheIdOutlivesTheInstanceAndMountd) {
  AddSecond();
  ASSERT_EQ(
      Outcome(core_.plugins->Unregister("nfs", {.type = {}, .allocation = ""})),
      "Ok");
  ASSERT_EQ(core_.plugins->Get("nfs")->instances.size(), 1U);
  EXPECT_EQ(Detach("n1"), "Busy");
  EXPECT_EQ(Detach("n3"), "Ok");
  core_.Restart();
  ASSERT_EQ(Outcome(core_.Recover()), "Ok");
  ASSERT_TRUE(AwaitMaxVolumes(core_, 8));
  EXPECT_EQ(core_.plugins->Get("nfs")->removed_node_ids,
            std::vector<std::string>{"n1"});
  EXPECT_EQ(Detach("n1"), "Busy");
  EXPECT_EQ(Detach("n3"), "Ok");
}

// The plugin is gone in between, and mountd knows it by its volumes alone.
TEST_F(NodeInfoInstancesTest, TheIdOutlivesAPluginThatIsGone) {
  ASSERT_EQ(Outcome(core_.plugins->Unregister("nfs", {.force = true})), "Ok");
  ASSERT_TRUE(core_.plugins->Get("nfs")->instances.empty());
  core_.Restart();
  ASSERT_EQ(Outcome(core_.Recover()), "Ok");
  AddSecond();
  ASSERT_TRUE(AwaitStatus(*core_.plugins, "nfs", [](const auto& status) {
    return status.state == PluginState::kHealthy;
  }));
  EXPECT_EQ(Detach("n1"), "Busy");
  EXPECT_EQ(Detach("n3"), "Ok");
}

TEST_F(NodeInfoInstancesTest, AnIdThatInstancesShareIsKeptOnce) {
  Say(core_, {"n1", 8, {}});
  for (int i = 0; i < 3; ++i) {
    AddSecond();
    ASSERT_EQ(Outcome(core_.plugins->Unregister(
                  "nfs", {.type = {}, .allocation = "plug"})),
              "Ok");
    ASSERT_TRUE(AwaitMaxVolumes(core_, 10));
  }
  EXPECT_EQ(core_.plugins->Get("nfs")->removed_node_ids,
            std::vector<std::string>{"n1"});
}

TEST_F(NodeInfoInstancesTest, TheIdsGoWithThePlugin) {
  AddSecond();
  ASSERT_EQ(
      Outcome(core_.plugins->Unregister("nfs", {.type = {}, .allocation = ""})),
      "Ok");
  ASSERT_EQ(Outcome(core_.volumes->Unpublish("web", "alias")), "Ok");
  ASSERT_EQ(Outcome(core_.plugins->Unregister("nfs")), "Ok");
  EXPECT_TRUE(core_.state->plugins.ListRemovedNodeIds()->empty());
}

// A caller whose volumes do not fit cannot make mountd ask without a pause.
TEST_F(NodeInfoDoubtTest, DoubtsAreGatheredForASecond) {
  const auto begin = Clock::now();
  const std::size_t before = Questions(core_);
  for (int i = 0; i < 100; ++i) {
    core_.plugins->DoubtNodeInfo("nfs");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_TRUE(AwaitMaxVolumes(core_, 8));
  const auto seconds =
      std::chrono::ceil<std::chrono::seconds>(Clock::now() - begin).count();
  EXPECT_LE(Questions(core_) - before, static_cast<std::size_t>(seconds) + 1);
}

TEST_F(NodeInfoDoubtTest, AnotherNodeIdIsTheReason) {
  Say(core_, {"n2", 8, {}});
  core_.plugins->DoubtNodeInfo("nfs");
  ASSERT_TRUE(AwaitMaxVolumes(core_, 8));
  const PluginStatus now = core_.plugins->Get("nfs").value();
  EXPECT_EQ(now.state, PluginState::kHealthy);
  EXPECT_TRUE(
      AwaitReason(*core_.plugins, "nfs", "its node id changed from n1 to n2"));
  core_.plugins->DoubtNodeInfo("no such plugin");
}

// ---- The texts ----

PluginChange Change(const NodeInfo& before, const NodeInfo& now) {
  PluginChange change;
  change.before.node = before;
  change.now.node = now;
  return change;
}

std::string TextOf(const PluginChange& change) {
  const auto changed = NodeInfoChangeOf(change);
  return changed ? changed->text : "";
}

TEST(NodeInfoChangeTest, SaysWhatChanged) {
  const NodeInfo known{"n1", 10, {{"zone", "a"}}};
  EXPECT_EQ(TextOf(Change(known, known)), "");
  EXPECT_EQ(TextOf(Change({}, known)), "") << "the first is no change";
  EXPECT_EQ(TextOf(Change(known, {"n1", 16, {{"zone", "a"}}})),
            "max_volumes 10 -> 16");
  EXPECT_EQ(TextOf(Change(known, {"n\n2", 10, {}})),
            "node_id n1 -> n?2; topology zone=a -> none");
  const auto all = NodeInfoChangeOf(Change(known, {"n2", 0, {}}));
  EXPECT_TRUE(all->node_id && all->max_volumes && all->topology);
  PluginChange added = Change(known, {"n2", 0, {}});
  added.kind = PluginChange::Kind::kRemoved;
  EXPECT_EQ(TextOf(added), "");
}

}  // namespace
}  // namespace mountd::csi
