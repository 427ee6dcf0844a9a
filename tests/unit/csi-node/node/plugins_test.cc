// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/node/plugins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <future>
#include <thread>

#include "mountd/base/unix_socket.h"
#include "tests/support/matchers.h"
#include "tests/support/naive.h"
#include "tests/support/outcome.h"
#include "tests/support/temp_directory.h"
#include "tests/support/unix_socket.h"
#include "tests/unit/csi-node/node/await_status.h"
#include "tests/unit/mountd/service/core_fixture.h"

namespace mountd::csi {
namespace {

using Texts = std::vector<std::string>;

class PluginsTest : public ::testing::Test {
 protected:
  exec::FakeExecutor& executor() { return *core_.executor; }
  FakeCsiClient& client() { return *core_.client; }
  Plugins& plugins() { return *core_.plugins; }

  static PluginRecord Record(const std::string& id = "nfs",
                             const std::string& type = "node") {
    return {id, type, Core::kAgent, "", ""};
  }
  Result<PluginRegistration> Register(const PluginRecord& record = Record()) {
    Prepare(record.allocation);
    return plugins().Register(record);
  }
  void Prepare(const std::string& allocation) {
    if (!allocation.empty() &&
        !*core_.state->allocations.GetAllocation(allocation)) {
      ASSERT_THAT(
          core_.state->allocations.AddAllocation(
              {allocation, Core::kAgent, 1, "", AllocationState::kPrepared}),
          IsOk());
    }
  }
  static PluginRecord Of(const std::string& allocation,
                         const std::string& type = "node") {
    PluginRecord record = Record("nfs", type);
    record.allocation = allocation;
    return record;
  }
  // Returns the record's socket, as the executor's model names it.
  static std::string SocketOf(const PluginRecord& record) {
    const InstanceKey key = InstanceKey::Derive(record.allocation, record.type);
    return key.only() ? record.id : record.id + "/" + key.str();
  }
  // Returns the allocation of the instance that mountd uses.
  std::string Used(bool controller = false) {
    const auto session =
        controller ? plugins().UseController("nfs") : plugins().Use("nfs");
    return session ? session->status.record.allocation : Outcome(session);
  }
  std::string UnregisterOf(const PluginSelection& which) {
    return Outcome(plugins().Unregister("nfs", which));
  }
  bool Await(const std::string& event) { return core_.events.Await(event); }
  PluginStatus Status() { return plugins().Get("nfs").value(); }
  template <typename F>
  bool AwaitStatus(const F& condition) {
    return csi::AwaitStatus(plugins(), "nfs", condition);
  }
  bool AwaitReason(const std::string& text) {
    return csi::AwaitReason(plugins(), "nfs", text);
  }
  // Adds a volume of the plugin that is in use.
  void AddVolume() {
    ASSERT_THAT(core_.state->allocations.AddAllocation(
                    {"web", 1, 1, "", AllocationState::kPrepared}),
                IsOk());
    publication_ = AddUsedVolume(core_, "alias");
  }

  PublicationRecord publication_;
  Core core_;
};

TEST_F(PluginsTest, ARegisteredPluginBecomesHealthyAndIsKnown) {
  const auto registration = Register();
  ASSERT_THAT(registration, IsOk());
  EXPECT_EQ(registration->host_path, "/run/mountd/base/p/nfs");
  EXPECT_EQ(registration->mount_dir, "/run/mountd/base/p/nfs");
  EXPECT_EQ(registration->endpoint, "unix:///run/mountd/base/p/nfs/csi.sock");
  ASSERT_TRUE(Await("nfs healthy 1"));
  const PluginStatus status = Status();
  EXPECT_EQ(status.state, PluginState::kHealthy);
  EXPECT_EQ(status.reason, "");
  EXPECT_EQ(status.info.name, "fake.example");
  EXPECT_EQ(status.info.vendor_version, "1.0");
  EXPECT_TRUE(status.stages());
  EXPECT_EQ(status.node.node_id, "node-nfs");
  EXPECT_EQ(status.node.topology.at("zone"), "z1");
  const auto session = plugins().Use("nfs");
  ASSERT_THAT(session, IsOk());
  EXPECT_EQ(session->channel.generation, 1U);
  EXPECT_EQ(client().OpenChannels(), Texts{"nfs/1"});
}

TEST_F(PluginsTest, ItsPathsAreAsItsTaskSeesThem) {
  PluginRecord record = Record();
  record.mount_dir = "/csi";
  const auto registration = Register(record);
  ASSERT_THAT(registration, IsOk());
  EXPECT_EQ(registration->host_path, "/run/mountd/base/p/nfs");
  EXPECT_EQ(registration->mount_dir, "/csi");
  EXPECT_EQ(registration->endpoint, "unix:///csi/csi.sock");
}

TEST_F(PluginsTest, RegisteringAgainIsIdempotent) {
  const auto first = Register();
  const auto second = Register();
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->endpoint, first->endpoint);
  EXPECT_EQ(plugins().List().size(), 1U);
  ASSERT_TRUE(Await("nfs healthy 1"));
  EXPECT_EQ(core_.events.All(), Texts{"nfs healthy 1"});
}

TEST_F(PluginsTest, RegisteringOtherwiseIsAlreadyExists) {
  ASSERT_THAT(Register(), IsOk());
  // Both would listen at csi.sock.
  PluginRecord type = Record("nfs", "monolith");
  EXPECT_THAT(Register(type), IsErr(Code::kAlreadyExists));
  PluginRecord uid = Record();
  uid.uid = 1;
  EXPECT_THAT(Register(uid), IsErr(Code::kAlreadyExists));
  PluginRecord bare = Record();
  bare.bare_directories = true;
  EXPECT_THAT(Register(bare), IsErr(Code::kAlreadyExists));
  bare.allocation = "web";
  EXPECT_THAT(Register(bare), IsErr(Code::kAlreadyExists));
  PluginRecord directory = Record();
  directory.mount_dir = "/csi";
  EXPECT_THAT(Register(directory), IsErr(Code::kAlreadyExists));
  EXPECT_EQ(Status().record.type, "node");
  EXPECT_EQ(Status().instances.size(), 1U);
}

TEST_F(PluginsTest, BadRegistrationsAreInvalid) {
  EXPECT_THAT(Register(Record("nfs", "other")), IsErr(Code::kInvalidArgument));
  // A socket's path must fit into 107 bytes.
  EXPECT_THAT(Register(Record(std::string(80, 'x'))),
              IsErr(Code::kInvalidArgument));
  EXPECT_THAT(Register(Record(std::string(79, 'x'))), IsOk());
}

TEST_F(PluginsTest, ADirectoryThatCannotBeMadeRegistersNothing) {
  executor().FailNext("PreparePlugin", Code::kDeadlineExceeded,
                      FailWhen::kAfter);
  EXPECT_THAT(Register(), IsErr(Code::kDeadlineExceeded));
  EXPECT_TRUE(executor().Existing().empty());
  EXPECT_TRUE(core_.state->plugins.ListPlugins()->empty());
  EXPECT_FALSE(plugins().Get("nfs").has_value());
  EXPECT_THAT(plugins().Use("nfs"), IsErr(Code::kNotFound));
}

TEST_F(PluginsTest, OneThatDoesNotListenYetIsStartingAndNotUnhealthy) {
  executor().SetListening("nfs", false);
  ASSERT_THAT(Register(), IsOk());
  ASSERT_TRUE(executor().script().AwaitCalls("ConnectPlugin", 3));
  EXPECT_EQ(Status().state, PluginState::kStarting);
  EXPECT_EQ(Status().generation, 0U);
  const auto session = plugins().Use("nfs");
  ASSERT_THAT(session, IsErr(Code::kUnavailable));
  EXPECT_EQ(session.error().away, Away::kPlugin);
  EXPECT_TRUE(core_.events.All().empty());
  executor().SetListening("nfs", true);
  EXPECT_TRUE(Await("nfs healthy 1"));
}

TEST_F(PluginsTest, OneThatIsNotReadyIsStarting) {
  client().SetReady("nfs", false);
  ASSERT_THAT(Register(), IsOk());
  ASSERT_TRUE(AwaitReason("not ready"));
  EXPECT_EQ(Status().state, PluginState::kStarting);
  EXPECT_TRUE(core_.events.All().empty());
  client().SetReady("nfs", true);
  ASSERT_TRUE(client().script().AwaitCalls("NodeGetInfo", 1));
  // mountd has connected again until the plugin was ready, and closed the old
  // channels.
  ASSERT_TRUE(AwaitStatus([](const PluginStatus& status) {
    return status.state == PluginState::kHealthy;
  }));
  EXPECT_EQ(client().OpenChannels(),
            Texts{"nfs/" + std::to_string(Status().generation)});
}

TEST_F(PluginsTest, WithoutANodeIdItIsNotHealthy) {
  FakeCsiClient::Plugin plugin = FakeCsiClient::DefaultPlugin("nfs");
  plugin.node.node_id = "";
  client().SetPlugin("nfs", plugin);
  ASSERT_THAT(Register(), IsOk());
  ASSERT_TRUE(Await("nfs unhealthy 1"));
  EXPECT_EQ(core_.events.LastReason(), "it has no node id");
}

TEST_F(PluginsTest, AControllerIsNotAskedForItsNode) {
  ASSERT_THAT(Register(Record("nfs", "controller")), IsOk());
  ASSERT_TRUE(Await("nfs healthy 1"));
  EXPECT_EQ(client().script().Count("NodeGetInfo"), 0U);
  EXPECT_EQ(Status().node.node_id, "");
}

TEST_F(PluginsTest, AProbeThatFailsMakesItUnhealthyUntilOneSucceeds) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  client().SetReady("nfs", false);
  ASSERT_TRUE(Await("nfs unhealthy 1"));
  EXPECT_THAT(plugins().Use("nfs"), IsErr(Code::kUnavailable));
  // mountd reports each edge once, however many probes follow.
  ASSERT_TRUE(client().script().AwaitCalls(
      "Probe", client().script().Count("Probe") + 3));
  EXPECT_EQ(core_.events.All(), (Texts{"nfs healthy 1", "nfs unhealthy 1"}));
  core_.events.Forget();
  client().SetReady("nfs", true);
  ASSERT_TRUE(Await("nfs healthy 1"));
  ASSERT_TRUE(client().script().AwaitCalls(
      "Probe", client().script().Count("Probe") + 3));
  EXPECT_EQ(core_.events.All(), Texts{"nfs healthy 1"});
  EXPECT_EQ(executor().script().Count("ConnectPlugin"), 1U);
}

TEST_F(PluginsTest, AHangUpIsUnhealthyAndAReconnectANewGeneration) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  executor().SetListening("nfs", false);
  executor().HangUp("nfs");
  ASSERT_TRUE(Await("nfs unhealthy 1"));
  EXPECT_THAT(plugins().Use("nfs"), IsErr(Code::kUnavailable));
  executor().SetListening("nfs", true);
  ASSERT_TRUE(Await("nfs healthy 2"));
  EXPECT_EQ(core_.events.All(),
            (Texts{"nfs healthy 1", "nfs unhealthy 1", "nfs healthy 2"}));
  EXPECT_EQ(plugins().Use("nfs")->channel.generation, 2U);
  EXPECT_EQ(client().OpenChannels(), Texts{"nfs/2"});
}

TEST_F(PluginsTest, ALostChannelIsANewGeneration) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  client().LoseChannels();
  EXPECT_TRUE(Await("nfs unhealthy 1"));
  EXPECT_TRUE(Await("nfs healthy 2"));
}

TEST_F(PluginsTest, AllAreConnectedToAnew) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  ASSERT_TRUE(core_.AddPlugin("ebs"));
  plugins().ReconnectAll();
  ASSERT_TRUE(client().script().AwaitCalls("Open nfs", 2));
  ASSERT_TRUE(client().script().AwaitCalls("Open ebs", 2));
  EXPECT_EQ(Status().generation, 2U);
}

TEST_F(PluginsTest, UnregisteringTakesAllAway) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  EXPECT_THAT(plugins().Unregister("nfs"), IsOk());
  EXPECT_TRUE(Await("nfs gone 1"));
  EXPECT_TRUE(executor().Existing().empty());
  EXPECT_TRUE(core_.state->plugins.ListPlugins()->empty());
  EXPECT_TRUE(client().OpenChannels().empty());
  EXPECT_THAT(plugins().Use("nfs"), IsErr(Code::kNotFound));
  EXPECT_THAT(plugins().Unregister("nfs"), IsOk());
}

TEST_F(PluginsTest, OneWithVolumesIsBusy) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  AddVolume();
  EXPECT_THAT(plugins().Unregister("nfs"), IsErr(Code::kBusy));
  EXPECT_EQ(executor().script().Count("RemovePlugin"), 0U);
  EXPECT_EQ(Status().state, PluginState::kHealthy);
  ASSERT_THAT(core_.state->volumes.RemovePublication(publication_, true),
              IsOk());
  EXPECT_THAT(plugins().Unregister("nfs"), IsOk());
}

TEST_F(PluginsTest, OneWhoseDirectoryIsInUseStaysRegistered) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  executor().SetBusy("nfs");
  EXPECT_THAT(plugins().Unregister("nfs"), IsErr(Code::kBusy));
  EXPECT_THAT(plugins().Use("nfs"), IsOk());
  EXPECT_EQ(core_.state->plugins.ListPlugins()->size(), 1U);
  // Volumes can be added again, and the plugin can go later.
  AddVolume();
  ASSERT_THAT(core_.state->volumes.RemovePublication(publication_, true),
              IsOk());
  executor().SetBusy("nfs", false);
  EXPECT_THAT(plugins().Unregister("nfs"), IsOk());
  EXPECT_TRUE(executor().Existing().empty());
}

// An open directory could not be unmounted, so Unregister waits for a call that
// looks into it.
TEST_F(PluginsTest, ALookIntoTheDirectoryUnderWayIsWaitedFor) {
  executor().script().Block("ConnectPlugin");
  ASSERT_THAT(Register(), IsOk());
  ASSERT_TRUE(executor().script().AwaitBlocked("ConnectPlugin"));
  auto told = std::async(std::launch::async, [&] {
    return MessageOf(plugins().Unregister("nfs"));
  });
  EXPECT_EQ(told.wait_for(std::chrono::milliseconds(100)),
            std::future_status::timeout);
  EXPECT_EQ(executor().script().Count("RemovePlugin"), 0U);
  executor().script().Unblock("ConnectPlugin");
  EXPECT_EQ(told.get(), "Ok");
  EXPECT_TRUE(executor().Existing().empty());
}

TEST_F(PluginsTest, ARestartTakesUpTheRegisteredOnes) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  core_.Restart();
  EXPECT_TRUE(plugins().List().empty());
  ASSERT_THAT(plugins().Recover(), IsOk());
  EXPECT_TRUE(Await("nfs healthy 1"));
  EXPECT_THAT(Register(), IsOk());
}

TEST_F(PluginsTest, ARebootMakesTheDirectoryAgain) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  core_.Restart(/*same_boot=*/false);
  ASSERT_THAT(plugins().Recover(), IsOk());
  EXPECT_TRUE(Await("nfs healthy 1"));
  EXPECT_EQ(executor().Existing(), Texts{"plugin nfs"});
}

// ---- Several instances ----

TEST_F(PluginsTest, InstancesShareTheDirectoryAndHaveTheirSockets) {
  PluginRecord web = Of("web", "monolith");
  web.mount_dir = "/csi";
  const auto registration = Register(web);
  ASSERT_THAT(registration, IsOk());
  const std::string key = InstanceKey::Derive("web", "monolith").str();
  EXPECT_EQ(registration->endpoint, "unix:///csi/csi-" + key + ".sock");
  const auto controller = Register(Record("nfs", "controller"));
  ASSERT_THAT(controller, IsOk());
  EXPECT_EQ(controller->host_path, registration->host_path);
  EXPECT_NE(controller->endpoint, "unix:///run/mountd/base/p/nfs/csi.sock");
  EXPECT_EQ(executor().Existing(), Texts{"plugin nfs"});
  EXPECT_EQ(Status().instances.size(), 2U);
}

TEST_F(PluginsTest, MountsOfATaskAreWhatItsTypeNeeds) {
  PluginRecord record = Record();
  record.mount_dir = "/csi";
  record.stage_publish_base_dir = "/local/csi";
  const auto node = Register(record);
  ASSERT_THAT(node, IsOk());
  ASSERT_EQ(node->mounts.size(), 3U);
  EXPECT_EQ(node->mounts[0].task_path, "/csi");
  EXPECT_EQ(node->mounts[1].task_path, "/local/csi");
  EXPECT_EQ(node->mounts[1].host_path, node->host_path);
  EXPECT_EQ(node->mounts[1].propagation, "bidirectional");
  EXPECT_EQ(node->mounts[2].task_path, "/dev");
  EXPECT_EQ(node->mounts[2].propagation, "host-to-task");
  EXPECT_FALSE(node->mounts[2].read_only);
  EXPECT_EQ(PluginViewPath(record, "staging/k"), "/local/csi/staging/k");
  EXPECT_EQ(PluginViewPath(record, "csi.sock"), "/csi/csi.sock");
  const auto controller = Register(Record("nfs", "controller"));
  ASSERT_EQ(controller->mounts.size(), 1U);
}

TEST_F(PluginsTest, CallsGoToTheNewestHealthyInstanceAndOthersTakeOver) {
  ASSERT_THAT(Register(Of("old")), IsOk());
  ASSERT_TRUE(Await("healthy nfs node old"));
  executor().SetListening(SocketOf(Of("new")), false);
  ASSERT_THAT(Register(Of("new")), IsOk());
  EXPECT_EQ(Used(), "old");
  executor().SetListening(SocketOf(Of("new")), true);
  ASSERT_TRUE(Await("healthy nfs node new"));
  EXPECT_EQ(Used(), "new");
  EXPECT_EQ(Status().instances.front().record.allocation, "new");
  executor().SetListening(SocketOf(Of("new")), false);
  executor().HangUp(SocketOf(Of("new")));
  ASSERT_TRUE(Await("unhealthy nfs node new"));
  EXPECT_EQ(Used(), "old");
  // The plugin stayed healthy all the time.
  EXPECT_EQ(core_.events.All(), Texts{"nfs healthy 1"});
  executor().SetListening(SocketOf(Of("old")), false);
  executor().HangUp(SocketOf(Of("old")));
  ASSERT_TRUE(Await("unhealthy nfs node old"));
  EXPECT_EQ(Used(), "Unavailable");
  EXPECT_TRUE(Await("nfs unhealthy 2"));
  EXPECT_EQ(core_.events.All().size(), 2U);
}

TEST_F(PluginsTest, NodeAndControllerCallsGoToTheirInstances) {
  ASSERT_THAT(Register(Of("n", "node")), IsOk());
  ASSERT_TRUE(Await("healthy nfs node n"));
  EXPECT_EQ(Used(), "n");
  EXPECT_EQ(Used(/*controller=*/true), "Unavailable");
  ASSERT_THAT(Register(Of("c", "controller")), IsOk());
  ASSERT_TRUE(Await("healthy nfs controller c"));
  EXPECT_EQ(Used(), "n");
  EXPECT_EQ(Used(true), "c");
  EXPECT_EQ(Status().record.allocation, "n");
  ASSERT_THAT(Register(Of("m", "monolith")), IsOk());
  ASSERT_TRUE(Await("healthy nfs monolith m"));
  EXPECT_EQ(Used(), "m");
  EXPECT_EQ(Used(true), "m");
  EXPECT_EQ(UnregisterOf({.type = "monolith"}), "Ok");
  EXPECT_EQ(Used(), "n");
  EXPECT_EQ(Used(true), "c");
}

TEST_F(PluginsTest, AnInstanceThatIsNotRegisteredChangesNothing) {
  ASSERT_THAT(Register(Of("web")), IsOk());
  // The plugin's own event follows its instance's.
  ASSERT_TRUE(Await("healthy nfs node web"));
  ASSERT_TRUE(core_.events.Await("nfs healthy 1"));
  core_.events.Forget();
  EXPECT_EQ(UnregisterOf({.allocation = "api"}), "Ok");
  EXPECT_EQ(UnregisterOf({.type = "controller"}), "Ok");
  EXPECT_EQ(UnregisterOf({.type = "controller", .allocation = "web"}), "Ok");
  EXPECT_EQ(UnregisterOf({.type = "node", .allocation = "", .force = true}),
            "Ok");
  EXPECT_THAT(plugins().Unregister("ebs"), IsOk());
  EXPECT_TRUE(core_.events.All().empty());
  EXPECT_TRUE(core_.events.OfInstances().empty());
  EXPECT_EQ(Used(), "web");
}

TEST_F(PluginsTest, OneInstanceGoesAndTheLastTakesThePluginAlong) {
  ASSERT_THAT(Register(Of("a")), IsOk());
  ASSERT_THAT(Register(Of("b")), IsOk());
  ASSERT_TRUE(Await("healthy nfs node a"));
  ASSERT_TRUE(Await("healthy nfs node b"));
  EXPECT_EQ(UnregisterOf({.allocation = "b"}), "Ok");
  EXPECT_TRUE(Await("removed nfs node b"));
  EXPECT_EQ(
      executor().script().Count("RemovePluginSocket " + SocketOf(Of("b"))), 1U);
  EXPECT_EQ(executor().script().Count("RemovePlugin nfs"), 0U);
  EXPECT_EQ(core_.state->plugins.ListPlugins()->size(), 1U);
  EXPECT_EQ(Used(), "a");
  EXPECT_EQ(UnregisterOf({.allocation = "a"}), "Ok");
  EXPECT_TRUE(Await("removed nfs node a"));
  EXPECT_EQ(core_.events.LastReason(), "unregistered");
  EXPECT_FALSE(plugins().Get("nfs").has_value());
  EXPECT_TRUE(executor().Existing().empty());
  EXPECT_TRUE(core_.state->plugins.ListPlugins()->empty());
}

TEST_F(PluginsTest, VolumesNeedAnInstanceForTheNode) {
  ASSERT_THAT(Register(Of("a")), IsOk());
  ASSERT_THAT(Register(Of("b")), IsOk());
  ASSERT_THAT(Register(Of("c", "controller")), IsOk());
  AddVolume();
  EXPECT_EQ(UnregisterOf({.allocation = "a"}), "Ok");
  EXPECT_EQ(UnregisterOf({.allocation = "b"}), "Busy");
  EXPECT_EQ(UnregisterOf({.allocation = "c"}), "Ok");
  EXPECT_EQ(UnregisterOf({}), "Busy");
  EXPECT_EQ(Status().instances.size(), 1U);
}

TEST_F(PluginsTest, AForcedOneIsGoneUntilItIsRegisteredAgain) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  AddVolume();
  EXPECT_EQ(UnregisterOf({.force = true}), "Ok");
  EXPECT_TRUE(Await("removed nfs node "));
  EXPECT_TRUE(Await("nfs gone 1"));
  EXPECT_EQ(Status().state, PluginState::kGone);
  EXPECT_TRUE(Status().instances.empty());
  EXPECT_EQ(Used(), "Unavailable");
  EXPECT_EQ(executor().Existing(), Texts{"plugin nfs"});
  core_.Restart();
  ASSERT_THAT(plugins().Recover(), IsOk());
  EXPECT_EQ(Status().state, PluginState::kGone);
  EXPECT_EQ(Status().record.uid, Core::kAgent);
  // The same call succeeds again, and the plugin stays.
  EXPECT_EQ(UnregisterOf({}), "Ok");
  EXPECT_TRUE(core_.events.All().empty());
  PluginRecord anothers = Record();
  anothers.uid = 1;
  EXPECT_THAT(Register(anothers), IsErr(Code::kAlreadyExists));
  ASSERT_THAT(Register(), IsOk());
  EXPECT_TRUE(Await("nfs healthy 1"));
  // The supervisor's progress at this event is not determined.
  EXPECT_THAT(
      core_.events.All().front(),
      ::testing::AnyOf("nfs starting 0", "nfs starting 1", "nfs healthy 1"));
  EXPECT_THAT(plugins().Use("nfs"), IsOk());
}

TEST_F(PluginsTest, WhatIsGoneGoesWithItsVolumes) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  AddVolume();
  EXPECT_EQ(UnregisterOf({.force = true}), "Ok");
  ASSERT_THAT(core_.state->volumes.RemovePublication(publication_, true),
              IsOk());
  core_.Restart();
  ASSERT_THAT(plugins().Recover(), IsOk());
  EXPECT_FALSE(plugins().Get("nfs").has_value());
  EXPECT_TRUE(executor().Existing().empty());
}

// ---- Health, and the process that listens ----

TEST_F(PluginsTest, OneThatIsNeverReadyIsUnhealthyAfterItsTimeout) {
  executor().SetListening("nfs", false);
  PluginRecord record = Record();
  record.health_timeout_ms = 20;
  ASSERT_THAT(Register(record), IsOk());
  ASSERT_TRUE(Await("nfs unhealthy 0"));
  EXPECT_EQ(
      core_.events.LastReason().find("did not become healthy within 20 ms: "),
      0U)
      << core_.events.LastReason();
  const std::size_t attempts = executor().script().Count("ConnectPlugin");
  ASSERT_TRUE(executor().script().AwaitCalls("ConnectPlugin", attempts + 3));
  EXPECT_EQ(core_.events.All(), Texts{"nfs unhealthy 0"});
  executor().SetListening("nfs", true);
  EXPECT_TRUE(Await("nfs healthy 1"));
}

TEST_F(PluginsTest, AnotherSocketInItsPlaceIsConnectedTo) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  executor().ReplaceSocket("nfs");
  ASSERT_TRUE(AwaitStatus(
      [](const PluginStatus& status) { return status.generation == 2; }));
  ASSERT_TRUE(client().script().AwaitCalls(
      "Probe", client().script().Count("Probe") + 2));
  EXPECT_EQ(client().OpenChannels(), Texts{"nfs/2"});
  EXPECT_EQ(core_.events.All(), Texts{"nfs healthy 1"});
}

TEST_F(PluginsTest, WhoListensMustBeInTheAllocationsCgroup) {
  ASSERT_THAT(core_.state->allocations.AddAllocation(
                  {"web", 1, 1, "", AllocationState::kPrepared}),
              IsOk());
  ASSERT_THAT(core_.state->allocations.SetAllocationCgroup("web", 77), IsOk());
  executor().SetPluginCgroup(78);
  ASSERT_THAT(Register(Of("web")), IsOk());
  ASSERT_TRUE(AwaitReason("another cgroup"));
  EXPECT_EQ(Status().generation, 0U);
  executor().SetPluginCgroup(77);
  EXPECT_TRUE(Await("nfs healthy 1"));
}

// Connects as a naive daemon does, to any listener at the known path: first to
// the plugin, and after the release of its allocation to the path's next owner.
bool NaiveConnectsToTheNext() {
  const TempDirectory directory;
  const std::string path = directory.File("csi.sock");
  const auto connects = [&] {
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ConnectUnix(socket.get(), path) == 0;
  };
  UniqueFd plugin = test::ListenAt(path);
  const bool is_known = connects();
  plugin.reset();
  const UniqueFd next = test::ListenAt(path);
  return is_known && connects();
}

TEST_F(PluginsTest, NobodyListensForAnAllocationThatIsGone) {
  EXPECT_NAIVE(NaiveConnectsToTheNext());
  ASSERT_THAT(Register(Of("web")), IsOk());
  ASSERT_TRUE(Await("nfs healthy 1"));
  ReceiptRecord receipt;
  receipt.allocation = "web";
  ASSERT_THAT(core_.state->allocations.FinishAllocation(receipt), IsOk());
  executor().HangUp(SocketOf(Of("web")));
  EXPECT_TRUE(AwaitReason("allocation web: was released"));
}

TEST_F(PluginsTest, OneIsNotRegisteredForAnAllocationThatIsReleased) {
  Prepare("web");
  ASSERT_THAT(core_.state->allocations.SetAllocationState(
                  "web", AllocationState::kReleasing),
              IsOk());
  EXPECT_THAT(Register(Of("web")), IsErr(Code::kFailedPrecondition));
  EXPECT_THAT(plugins().Register(Of("none")), IsErr(Code::kFailedPrecondition));
  EXPECT_TRUE(plugins().List().empty());
  EXPECT_TRUE(executor().Existing().empty());
}

TEST_F(PluginsTest, InstancesEndWithTheirAllocation) {
  for (const char* allocation : {"a", "b"}) {
    ASSERT_THAT(Register(Of(allocation)), IsOk());
  }
  ASSERT_THAT(Register(Of("a", "controller")), IsOk());
  EXPECT_THAT(plugins().CheckUnused("a"), IsOk());
  EXPECT_THAT(plugins().UnregisterOf("a"), IsOk());
  ASSERT_EQ(Status().instances.size(), 1U);
  EXPECT_EQ(Status().instances[0].record.allocation, "b");
  EXPECT_THAT(plugins().UnregisterOf("c"), IsOk());
  EXPECT_THAT(plugins().UnregisterOf("b"), IsOk());
  EXPECT_TRUE(plugins().List().empty());
  EXPECT_TRUE(executor().Existing().empty());
}

TEST_F(PluginsTest, OthersVolumesKeepTheLastOneOfTheNode) {
  ASSERT_THAT(Register(Of("a")), IsOk());
  AddVolume();
  EXPECT_THAT(plugins().CheckUnused("a"), IsErr(Code::kBusy));
  EXPECT_THAT(plugins().UnregisterOf("a"), IsErr(Code::kBusy));
  ASSERT_THAT(Register(Of("b")), IsOk());
  EXPECT_THAT(plugins().CheckUnused("a"), IsOk());
  EXPECT_THAT(plugins().UnregisterOf("a"), IsOk());
  EXPECT_THAT(plugins().CheckUnused("b"), IsErr(Code::kBusy));
  // The volume belongs only to the instance's own allocation.
  ASSERT_THAT(Register(Of("web")), IsOk());
  ASSERT_EQ(UnregisterOf({{}, "b"}), "Ok");
  EXPECT_THAT(plugins().CheckUnused("web"), IsOk());
  EXPECT_THAT(plugins().UnregisterOf("web"), IsErr(Code::kBusy));
}

TEST_F(PluginsTest, ARestartEndsThoseWhoseAllocationIsGone) {
  ASSERT_THAT(Register(Of("a")), IsOk());
  ASSERT_THAT(Register(Of("b")), IsOk());
  ReceiptRecord receipt;
  receipt.allocation = "a";
  ASSERT_THAT(core_.state->allocations.FinishAllocation(receipt), IsOk());
  core_.Restart();
  ASSERT_THAT(plugins().Recover(), IsOk());
  ASSERT_EQ(Status().instances.size(), 1U);
  EXPECT_EQ(Status().instances[0].record.allocation, "b");
}

TEST_F(PluginsTest, RegistrationsOfOnePluginWaitForEachOther) {
  Prepare("a");
  executor().script().Block("PreparePlugin");
  std::thread registers([&] { EXPECT_THAT(Register(Of("a")), IsOk()); });
  ASSERT_TRUE(executor().script().AwaitBlocked("PreparePlugin"));
  std::promise<void> ended;
  std::thread unregisters([&] {
    EXPECT_THAT(plugins().UnregisterOf("a"), IsOk());
    ended.set_value();
  });
  EXPECT_EQ(ended.get_future().wait_for(std::chrono::milliseconds(100)),
            std::future_status::timeout);
  executor().script().Unblock("PreparePlugin");
  registers.join();
  unregisters.join();
  EXPECT_TRUE(plugins().List().empty());
  EXPECT_TRUE(executor().Existing().empty());
}

TEST_F(PluginsTest, WhatItSaidOutlivesMountd) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  const Fingerprint said = Status();
  executor().SetListening("nfs", false);
  core_.Restart();
  ASSERT_THAT(plugins().Recover(), IsOk());
  EXPECT_EQ(Status().state, PluginState::kStarting);
  EXPECT_TRUE(static_cast<const Fingerprint&>(Status()) == said);
  EXPECT_EQ(Status().node.node_id, "node-nfs");
}

TEST_F(PluginsTest, WhatItSaysIsReadAgainAfterAReconnect) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  FakeCsiClient::Plugin plugin = FakeCsiClient::DefaultPlugin("nfs");
  plugin.info.vendor_version = "2.0";
  plugin.capabilities.node_rpcs.push_back(4711);
  client().SetPlugin("nfs", plugin);
  plugins().ReconnectAll();
  ASSERT_TRUE(AwaitStatus([](const PluginStatus& status) {
    return status.info.vendor_version == "2.0";
  }));
  EXPECT_EQ(Status().capabilities.node_rpcs.back(), 4711);
  // The instance reports news, but the plugin has no edge.
  ASSERT_TRUE(AwaitStatus([&](const PluginStatus&) {
    return core_.events.OfInstances() ==
           Texts{"added nfs node ", "healthy nfs node ", "healthy nfs node "};
  }));
  EXPECT_EQ(core_.events.All(), Texts{"nfs healthy 1"});
}

TEST(PluginStateNameTest, EveryStateHasItsName) {
  EXPECT_EQ(PluginStateName(PluginState::kStarting), "starting");
  EXPECT_EQ(PluginStateName(PluginState::kHealthy), "healthy");
  EXPECT_EQ(PluginStateName(PluginState::kUnhealthy), "unhealthy");
  EXPECT_EQ(PluginStateName(PluginState::kGone), "gone");
}

}  // namespace
}  // namespace mountd::csi
