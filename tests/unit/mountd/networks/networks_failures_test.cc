// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Networks whose records cannot be written or read, or whose configuration has
// changed, and what is left of them.
#include "tests/support/fakes/failing_store.h"
#include "tests/unit/mountd/networks/networks_test.h"

namespace mountd {
namespace {

NetworkRequest OfMode(NetworkMode mode) {
  NetworkRequest spec = Spec(20080);
  spec.mode = mode;
  return spec;
}

class NetworksFailuresTest : public NetworksTest {
 protected:
  store::Database& database() { return core_.boot->database(); }
  std::string SetUpNetwork(const NetworkRequest& spec) {
    return Outcome(networks().Setup("web", spec));
  }
  // Expects that no network is there, and that no address or port is taken.
  void ExpectNothing() {
    EXPECT_TRUE(Existing().empty());
    EXPECT_FALSE(RecordOf("web").has_value());
    EXPECT_EQ(networks().CountFreePorts(20080, 20080), 1U);
    networks().ReapQuarantine();
    EXPECT_EQ(Free(), networks().GetUsage().at("default").capacity);
  }
};

TEST_F(NetworksFailuresTest, WithoutAnIntentThereIsNoPlanAndNothingIsTaken) {
  for (const auto mode : {NetworkMode::kBridge, NetworkMode::kHost}) {
    {
      const FailingWrites failing(database(), "INSERT", "networks");
      EXPECT_NE(SetUpNetwork(OfMode(mode)), "Ok");
    }
    // A plan may only check the host's ports.
    for (const exec::Request& plan : executor().plans()) {
      EXPECT_EQ(plan.kind, exec::PlanKind::kCheckHostPorts);
    }
    ExpectNothing();
  }
  EXPECT_EQ(SetUpNetwork(OfMode(NetworkMode::kBridge)), "Ok");
}

// No caller got the network, so the same call makes it again.
TEST_F(NetworksFailuresTest, OneThatIsNotRecordedAsMadeIsMadeAnew) {
  {
    const FailingWrites failing(database(), "UPDATE", "networks");
    EXPECT_NE(SetUpNetwork(Spec(20080)), "Ok");
  }
  EXPECT_EQ(RecordOf("web")->state, NetworkRecordState::kCreating);
  EXPECT_FALSE(Get("web").has_value());
  ASSERT_EQ(SetUpNetwork(Spec(20080)), "Ok");
  EXPECT_EQ(executor().script().Count("DeleteNetwork"), 1U);
  EXPECT_EQ(executor().script().Count("CreateNetwork"), 2U);
  ASSERT_EQ(MessageOf(Teardown("web")), "Ok");
  ExpectNothing();
}

TEST_F(NetworksFailuresTest, FilesThatCannotBeWrittenUndoTheNetwork) {
  NetworkRequest spec = Spec(20080);
  spec.files.hostname = "web";
  executor().FailNext("WriteNetworkFile", Code::kUnavailable, FailWhen::kAfter);
  EXPECT_EQ(SetUpNetwork(spec), "Unavailable");
  ExpectNothing();
}

TEST_F(NetworksFailuresTest, FilesThatCannotBeRemovedKeepTheRecord) {
  NetworkRequest spec = Spec(20080);
  spec.files.hostname = "web";
  ASSERT_EQ(SetUpNetwork(spec), "Ok");
  executor().FailNext("RemoveNetworkFiles", Code::kUnavailable);
  EXPECT_EQ(Outcome(Teardown("web")), "Unavailable");
  EXPECT_EQ(RecordOf("web")->state, NetworkRecordState::kDeleting);
  EXPECT_EQ(networks().CountFreePorts(20080, 20080), 0U);
  ASSERT_EQ(MessageOf(Teardown("web")), "Ok");
  ExpectNothing();
}

TEST_F(NetworksFailuresTest, AnEndThatIsNotRecordedIsNone) {
  ASSERT_EQ(SetUpNetwork(Spec(20080)), "Ok");
  {
    const FailingWrites failing(database(), "INSERT", "quarantine");
    EXPECT_NE(Outcome(Teardown("web")), "Ok");
  }
  EXPECT_EQ(RecordOf("web")->state, NetworkRecordState::kDeleting);
  EXPECT_EQ(networks().CountFreePorts(20080, 20080), 0U);
  ASSERT_EQ(MessageOf(Teardown("web")), "Ok");
  ExpectNothing();
}

TEST_F(NetworksFailuresTest, AQuarantineThatCannotBeEndedIsLookedAtAgain) {
  ASSERT_EQ(SetUpNetwork(Spec()), "Ok");
  ASSERT_EQ(MessageOf(Teardown("web")), "Ok");
  const std::uint32_t before = Free();
  core_.checks = 0;
  {
    const FailingWrites failing(database(), "DELETE", "quarantine");
    networks().ReapQuarantine();
  }
  EXPECT_EQ(Free(), before) << "it would be given out, and quarantined";
  EXPECT_EQ(core_.checks, 1);
  networks().ReapQuarantine();
  EXPECT_EQ(Free(), before + 1);
}

TEST_F(NetworksFailuresTest, AQuarantineThatCannotBeReadIsLeft) {
  ASSERT_EQ(SetUpNetwork(Spec()), "Ok");
  ASSERT_EQ(MessageOf(Teardown("web")), "Ok");
  executor().script().Forget();
  {
    const LockedTable locked(database(), "quarantine");
    networks().ReapQuarantine();
  }
  EXPECT_EQ(executor().script().Count("InspectNetwork"), 0U);
  networks().ReapQuarantine();
  ExpectNothing();
}

TEST_F(NetworksFailuresTest, AStoreThatCannotBeReadIsTold) {
  ASSERT_EQ(SetUpNetwork(Spec()), "Ok");
  const std::vector<std::string> before = Existing();
  for (const char* table : {"networks", "quarantine"}) {
    core_.Restart();
    {
      const LockedTable locked(database(), table);
      EXPECT_NE(Outcome(networks().Recover()), "Ok") << table;
    }
    EXPECT_EQ(MessageOf(networks().Recover()), "Ok");
    EXPECT_EQ(Existing(), before);
  }
  const LockedTable locked(database(), "networks");
  EXPECT_NE(Outcome(Teardown("web")), "Ok");
  EXPECT_NE(Outcome(networks().Of("web")), "Ok");
  EXPECT_NE(Outcome(networks().TeardownOrder("web")), "Ok");
}

TEST_F(NetworksFailuresTest, ANetworkThatIsDeclaredNoMoreEndsLikeAnother) {
  NetworkRecord record;
  record.allocation = "web";
  record.interface = "eth0";
  record.mode = NetworkMode::kBridge;
  record.network = "former";
  record.ipv4 = {192, 0, 2, 9};
  record.netns_inode = 7;
  record.state = NetworkRecordState::kDeleting;
  ASSERT_EQ(Outcome(core_.boot->networks.AddNetwork(record)), "Ok");
  ASSERT_EQ(MessageOf(networks().Recover()), "Ok");
  EXPECT_FALSE(RecordOf("web").has_value());
  EXPECT_EQ(core_.boot->networks.ListQuarantine()->size(), 1U);
  networks().ReapQuarantine();
  EXPECT_TRUE(core_.boot->networks.ListQuarantine()->empty());
  EXPECT_FALSE(networks().GetUsage().contains("former"));
  ExpectNothing();
}

TEST_F(NetworksFailuresTest, WhatIsTakenForAnUndeclaredNetworkIsGivenBack) {
  NetworkRequest spec = Spec(20080);
  spec.network = "other";
  EXPECT_EQ(SetUpNetwork(spec), "NotFound");
  ExpectNothing();
}

TEST(NetworksOfOneFamilyTest, AnIpv6PortNeedsAnIpv6Range) {
  Config config = Core::DefaultConfig();
  config.networks["old"].ipv4 = {*netns::ParseIpv4Range("10.1.0.0/29")};
  Core core(config);
  NetworkRequest spec;
  spec.network = "old";
  spec.ports = {
      {"a", 20000, 80, exec::kTcp, 1, *netns::ParseHostIp("fd00::1")}};
  const std::uint32_t before = core.networks->GetUsage().at("old").free;
  const auto refused = core.networks->Setup("web", spec);
  EXPECT_EQ(Outcome(refused), "InvalidArgument");
  EXPECT_NE(MessageOf(refused).find("has no IPv6 range"), std::string::npos);
  EXPECT_EQ(core.networks->GetUsage().at("old").free, before);
  EXPECT_EQ(core.networks->CountFreePorts(20000, 20000), 1U);
  spec.ports.front().host_address = *netns::ParseHostIp("127.0.0.1");
  ASSERT_EQ(MessageOf(core.networks->Setup("web", spec)), "Ok");
  EXPECT_EQ(core.networks->GetUsage().at("old").free, before - 1);
}

}  // namespace
}  // namespace mountd
