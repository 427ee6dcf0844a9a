// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Signals of a plugin, and of a volume that died with its plugin. mountd sends
// them, on the socket and on the system bus, to the users whom a rule lets use
// the plugin, or to the user of the volume, and to nobody else.
#include <sys/mount.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mountd/base/paths.h"
#include "tests/root/node/node_csi_fixture.h"
#include "tests/support/bus_client.h"
#include "tests/support/servers/private_bus.h"

namespace mountd::testing {
namespace {

// The stranger has an account of the node and a rule of its own, which grants
// the plugin. The outsider's rule does not.
constexpr uid_t kStranger = kMountdUid + 1;
constexpr uid_t kOutsider = kMountdUid;

class NodeCsiSignals : public NodeCsi,
                       public ::testing::WithParamInterface<bool> {
 protected:
  NodeCsiSignals() {
    config_ += R"(
[[rule]]
users = ["mountd-csi"]
host_volumes = ["*"]
plugins = ["*"]

[[rule]]
users = ["mountd"]
host_volumes = ["*"]
)";
  }
  void BeforeStart() override {
    std::filesystem::create_directories(kBusDirectory);
    bus_ = std::make_unique<test::PrivateBus>(kBusDirectory);
  }
  void TearDown() override {
    owner_.reset();
    stranger_.reset();
    outsider_.reset();
    NodeCsi::TearDown();
    bus_.reset();
  }

  void Subscribe() {
    for (const auto& [client, uid] :
         {std::pair(&owner_, kAgentUid), std::pair(&stranger_, kStranger),
          std::pair(&outsider_, kOutsider)}) {
      *client = test::BusClient::Connect(
          {GetParam() ? bus_->address()
                      : "unix:path=" + std::string(paths::kBusSocket),
           GetParam(), uid});
      ASSERT_NE(*client, nullptr);
      const auto subscribed = (*client)->Call("Subscribe", "a{sv}", 0);
      ASSERT_TRUE(subscribed.ok()) << subscribed.message;
    }
  }
  // Ends the plugin and its file systems, and starts another one.
  void LoseTheVolume() {
    plugin_ = Process();
    for (const std::string& point : MountPointsUnder(kFaultDirectory)) {
      if (point != kFaultDirectory) {
        ::umount2(point.c_str(), MNT_DETACH);
      }
    }
    ASSERT_EQ(MountPointsUnder(kFaultDirectory).size(), 1U);
    StartPlugin();
  }
  // True if the client got such a signal among all that were sent so far.
  static bool WasToldTo(test::BusClient& client, const std::string& member) {
    client.Fence();
    for (const test::Signal& signal : client.signals()) {
      if (signal.member == member) {
        return true;
      }
    }
    return false;
  }

  std::unique_ptr<test::PrivateBus> bus_;
  std::unique_ptr<test::BusClient> owner_;
  std::unique_ptr<test::BusClient> stranger_;
  std::unique_ptr<test::BusClient> outsider_;
};

TEST_P(NodeCsiSignals, AVolumeThatDiedIsToldAndSoIsItsReturn) {
  ASSERT_NO_FATAL_FAILURE(Subscribe());
  ASSERT_EQ(Publish(), "Ok");
  ASSERT_NO_FATAL_FAILURE(LoseTheVolume());
  const std::string dead = owner_->AwaitSignal("VolumeHealth").text;
  EXPECT_TRUE(dead.starts_with(R"("fault", "v", "dead", ")")) << dead;
  EXPECT_EQ(owner_->AwaitSignal("VolumeHealth").text,
            R"("fault", "v", "healthy", "")");
  EXPECT_TRUE(Eventually([this] { return Recorded() == "staged published"; }))
      << Recorded();
  EXPECT_FALSE(WasToldTo(*stranger_, "VolumeHealth"));
  ExpectReleased();
}

TEST_P(NodeCsiSignals, TheSecretsThatAReturnTakesAreAskedFor) {
  ASSERT_NO_FATAL_FAILURE(Subscribe());
  agent::VolumeSpec spec = Volume();
  spec.secrets = {{"password", "hunter2"}};
  ASSERT_EQ(MessageOf(client_->PublishVolume("web", spec)), "Ok");
  ASSERT_NO_FATAL_FAILURE(LoseTheVolume());
  EXPECT_EQ(owner_->AwaitSignal("SecretsNeeded").text,
            R"("web", "data", "fault", "v")");
  const std::string dead = owner_->AwaitSignal("VolumeHealth").text;
  EXPECT_TRUE(dead.starts_with(R"("fault", "v", "dead", ")")) << dead;
  EXPECT_NE(Recorded(), "staged published");
  EXPECT_FALSE(WasToldTo(*stranger_, "SecretsNeeded"));
  // The agent does as the signal asks.
  EXPECT_TRUE(Eventually(
      [&] { return MessageOf(client_->PublishVolume("web", spec)) == "Ok"; }));
  EXPECT_EQ(Recorded(), "staged published");
  ExpectReleased();
}

// An agent shows these texts as events of the plugin's task.
TEST_P(NodeCsiSignals, APluginThatDiesAndComesBackIsToldInWords) {
  ASSERT_NO_FATAL_FAILURE(Subscribe());
  plugin_ = Process();
  const std::string unhealthy = owner_->AwaitSignal("PluginEvent").text;
  EXPECT_TRUE(unhealthy.starts_with(
      R"("fault", "monolith", "", "Plugin became unhealthy", "Error: )"))
      << unhealthy;
  ASSERT_NO_FATAL_FAILURE(StartPlugin());
  EXPECT_EQ(owner_->AwaitSignal("PluginEvent").text,
            R"("fault", "monolith", "", "Plugin became healthy", )"
            R"("plugin: fault")");
  EXPECT_TRUE(WasToldTo(*stranger_, "PluginEvent"));
  EXPECT_FALSE(WasToldTo(*outsider_, "PluginEvent"));
}

TEST_P(NodeCsiSignals, AnotherIdOfTheNodeIsTold) {
  ASSERT_NO_FATAL_FAILURE(Subscribe());
  plugin_ = Process();
  ASSERT_NO_FATAL_FAILURE(StartPlugin("node-2"));
  EXPECT_EQ(owner_->AwaitSignal("NodeInfoChanged").text,
            R"("fault", "monolith", "", {"node_id": "node-2", )"
            R"("max_volumes": 0, "topology": {}, "changed": ["node_id"]}, )"
            R"("node_id node-1 -> node-2")");
  EXPECT_TRUE(WasToldTo(*stranger_, "NodeInfoChanged"));
  EXPECT_FALSE(WasToldTo(*outsider_, "NodeInfoChanged"));
}

// The plugin refuses a volume for want of room, and is asked how much it has.
TEST_P(NodeCsiSignals, TheRoomOfAPluginThatRefusesAVolumeIsTold) {
  ASSERT_NO_FATAL_FAILURE(Subscribe());
  std::ofstream(std::string(kFaults) + "/faults")
      << "NodeStageVolume * code 8\nNodeGetInfo * room 16\n";
  EXPECT_EQ(Publish(), "ResourceExhausted");
  EXPECT_EQ(owner_->AwaitSignal("NodeInfoChanged").text,
            R"("fault", "monolith", "", {"node_id": "node-1", )"
            R"("max_volumes": 16, "topology": {}, )"
            R"("changed": ["max_volumes"]}, "max_volumes 0 -> 16")");
  EXPECT_TRUE(WasToldTo(*stranger_, "NodeInfoChanged"));
  EXPECT_FALSE(WasToldTo(*outsider_, "NodeInfoChanged"));
  ExpectAGoodEnd();
}

INSTANTIATE_TEST_SUITE_P(, NodeCsiSignals, ::testing::Bool(),
                         [](const auto& on_the_bus) {
                           return on_the_bus.param ? "Bus" : "Socket";
                         });

}  // namespace
}  // namespace mountd::testing
