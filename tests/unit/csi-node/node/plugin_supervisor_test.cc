// SPDX-License-Identifier: LGPL-2.1-or-later
//
// One instance of a plugin that misbehaves, or gets in the way.
#include "csi-node/node/plugin_supervisor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "mountd/plan/wire.h"
#include "tests/support/fakes/core.h"
#include "tests/support/no_threads.h"
#include "tests/support/outcome.h"
#include "tests/unit/csi-node/node/await_status.h"

namespace mountd::csi {
namespace {

using Texts = std::vector<std::string>;

class PluginSupervisorTest : public ::testing::Test {
 protected:
  exec::FakeExecutor& executor() { return *core_.executor; }
  FakeCsiClient& client() { return *core_.client; }
  Plugins& plugins() { return *core_.plugins; }
  PluginStatus Status() { return plugins().Get("nfs").value(); }

  std::string Register(std::uint32_t health_timeout_ms = 0) {
    PluginRecord record{"nfs", "node", Core::kAgent, "", ""};
    record.health_timeout_ms = health_timeout_ms;
    return Outcome(plugins().Register(record));
  }
  template <typename F>
  bool AwaitStatus(const F& condition) {
    return csi::AwaitStatus(plugins(), "nfs", condition);
  }
  bool AwaitReason(const std::string& text) {
    return csi::AwaitReason(plugins(), "nfs", text);
  }
  bool AwaitHealthy() {
    return AwaitStatus([](const PluginStatus& status) {
      return status.state == PluginState::kHealthy;
    });
  }
  // Waits until mountd has probed the plugin several more times.
  bool AwaitProbes() {
    return client().script().AwaitCalls("Probe",
                                        client().script().Count("Probe") + 3);
  }

  Core core_;
};

// ---- Before the plugin is ready ----

// Callers register as many plugins as their limits allow, whatever threads the
// process may have.
TEST_F(PluginSupervisorTest, WithoutAThreadItIsUnhealthyAndMountdGoesOn) {
  {
    const testing::NoThreads none;
    ASSERT_EQ(Register(), "Ok");
  }
  EXPECT_EQ(Status().state, PluginState::kUnhealthy);
  EXPECT_NE(Status().reason.find("no thread"), std::string::npos);
  ASSERT_EQ(MessageOf(plugins().Unregister("nfs")), "Ok");
  ASSERT_EQ(Register(), "Ok");
  EXPECT_TRUE(AwaitHealthy());
}

class FirstCalls : public PluginSupervisorTest,
                   public ::testing::WithParamInterface<const char*> {};

// After a failure of any first call the plugin stays "starting", and reports
// why on one line. No channel outlives its attempt.
TEST_P(FirstCalls, ThatFailAreTriedAgain) {
  client().script().FailNext(GetParam(), {RpcCode::kInternal, "not\nin\x7fyet"},
                             FailWhen::kBefore, CallScript<RpcError>::kAlways);
  ASSERT_EQ(Register(), "Ok");
  ASSERT_TRUE(AwaitReason("not in yet")) << Status().reason;
  ASSERT_TRUE(client().script().AwaitCalls(GetParam(), 3));
  EXPECT_EQ(Status().state, PluginState::kStarting);
  EXPECT_EQ(Outcome(plugins().Use("nfs")), "Unavailable");
  EXPECT_TRUE(core_.events.All().empty());
  client().script().Clear();
  ASSERT_TRUE(AwaitHealthy());
  EXPECT_EQ(client().OpenChannels(),
            Texts{"nfs/" + std::to_string(Status().generation)});
  EXPECT_EQ(Status().node.node_id, "node-nfs");
}

INSTANTIATE_TEST_SUITE_P(, FirstCalls,
                         ::testing::Values("Open", "Probe", "GetPluginInfo",
                                           "GetCapabilities", "NodeGetInfo"),
                         [](const auto& call) { return call.param; });

TEST_F(PluginSupervisorTest, ATimeoutOfWholeSecondsIsToldInSeconds) {
  executor().SetListening("nfs", false);
  ASSERT_EQ(Register(1000), "Ok");
  EXPECT_TRUE(AwaitReason("did not become healthy within 1 s: "));
  EXPECT_EQ(Status().state, PluginState::kUnhealthy);
}

// ---- Once the plugin is ready ----

TEST_F(PluginSupervisorTest, AProbeThatFailsDoesNotCostTheChannel) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  client().FailNext("Probe", RpcCode::kInternal);
  ASSERT_TRUE(core_.events.Await("nfs unhealthy 1"));
  ASSERT_TRUE(AwaitHealthy());
  EXPECT_EQ(Status().generation, 1U);
  EXPECT_EQ(executor().script().Count("ConnectPlugin"), 1U);
  EXPECT_EQ(client().OpenChannels(), Texts{"nfs/1"});
}

TEST_F(PluginSupervisorTest, ASocketThatIsRemovedDoesNotCostTheConnection) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  exec::PluginSocketPlan socket;
  socket.plugin = exec::ToWire(std::string("nfs"));
  ASSERT_EQ(Outcome(executor().RemovePluginSocket(socket)), "Ok");
  ASSERT_TRUE(AwaitProbes());
  EXPECT_EQ(Status().generation, 1U);
  EXPECT_EQ(core_.events.All(), Texts{"nfs healthy 1"});
}

// The reason why a program does not run says nothing about a process that
// answers. mountd reports that reason once the process has gone.
TEST_F(PluginSupervisorTest, AnObstacleDoesNotCostTheConnection) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  plugins().SetObstacle("nfs", "its unit failed");
  ASSERT_TRUE(AwaitProbes());
  EXPECT_EQ(Status().generation, 1U);
  EXPECT_EQ(core_.events.All(), Texts{"nfs healthy 1"});
  executor().SetListening("nfs", false);
  executor().HangUp("nfs");
  EXPECT_TRUE(AwaitReason("its unit failed"));
}

// A supervisor that goes on would make the directory again after its removal.
TEST_F(PluginSupervisorTest, WhatIsUnregisteredIsNotPreparedAgain) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  const std::size_t prepared = executor().script().Count("PreparePlugin");
  executor().script().Block("RemovePlugin");
  std::string outcome;
  std::thread unregister(
      [&] { outcome = Outcome(plugins().Unregister("nfs")); });
  EXPECT_TRUE(executor().script().AwaitBlocked("RemovePlugin"));
  executor().HangUp("nfs");
  EXPECT_TRUE(AwaitReason("is being unregistered"));
  EXPECT_EQ(executor().script().Count("PreparePlugin"), prepared);
  executor().script().Unblock("RemovePlugin");
  unregister.join();
  EXPECT_EQ(outcome, "Ok");
  EXPECT_TRUE(executor().Existing().empty());
  EXPECT_FALSE(plugins().Get("nfs").has_value());
}

// The directory is in use, so the unregistration fails and the plugin goes on
// as before.
TEST_F(PluginSupervisorTest, WhatCannotBeUnregisteredConnectsAgain) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  executor().SetBusy("nfs");
  executor().script().Block("RemovePlugin");
  std::string outcome;
  std::thread unregister(
      [&] { outcome = Outcome(plugins().Unregister("nfs")); });
  EXPECT_TRUE(executor().script().AwaitBlocked("RemovePlugin"));
  executor().HangUp("nfs");
  EXPECT_TRUE(AwaitReason("is being unregistered"));
  executor().script().Unblock("RemovePlugin");
  unregister.join();
  EXPECT_EQ(outcome, "Busy");
  EXPECT_TRUE(AwaitHealthy());
  EXPECT_EQ(Outcome(plugins().Use("nfs")), "Ok");
}

}  // namespace
}  // namespace mountd::csi
