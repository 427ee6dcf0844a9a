// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Networks that are there without a record, as after the loss of a store.
#include "tests/support/fakes/failing_store.h"
#include "tests/unit/mountd/networks/networks_test.h"

namespace mountd {
namespace {

NetworkRequest OnInterface(const std::string& interface,
                           const std::string& network) {
  NetworkRequest spec;
  spec.interface = interface;
  spec.network = network;
  return spec;
}

NetworkRequest Alone() {
  NetworkRequest spec;
  spec.mode = NetworkMode::kNone;
  return spec;
}

GivenNetns GivenOf(std::uint64_t inode) {
  GivenNetns given;
  given.fd = 0;  // the fake takes any fd
  given.inode = inode;
  return given;
}

class NetworksFoundTest : public NetworksTest {
 protected:
  NetworkStatus Make(const NetworkRequest& spec, const GivenNetns& given = {}) {
    const auto made = networks().Setup("web", spec, given);
    EXPECT_EQ(MessageOf(made), "Ok");
    return made.value();
  }
  // Starts mountd again without any record.
  void LoseRecords() {
    const auto records = core_.boot->networks.ListNetworks();
    for (const NetworkRecord& record : *records) {
      ASSERT_EQ(Outcome(core_.boot->networks.RemoveNetwork(record)), "Ok");
    }
    core_.Restart();
    ASSERT_EQ(MessageOf(networks().Recover()), "Ok");
    executor().script().Forget();
  }
  Result<void> TearAllDown() {
    MOUNTD_ASSIGN(const auto order, networks().TeardownOrder("web"));
    for (const std::string& interface : order) {
      MOUNTD_TRY(networks().Teardown("web", interface));
    }
    return Ok();
  }
  std::vector<NetworkRecordState> States() {
    std::vector<NetworkRecordState> states;
    const auto records = core_.boot->networks.NetworksOf("web");
    for (const NetworkRecord& record : *records) {
      states.push_back(record.state);
    }
    return states;
  }
};

TEST_F(NetworksFoundTest, TheSameSetupTakesItOver) {
  const NetworkStatus before = Make(Spec(20080));
  LoseRecords();
  ASSERT_EQ(States(), std::vector{NetworkRecordState::kFound});
  EXPECT_FALSE(Get("web").has_value()) << "nobody has set it up";
  EXPECT_EQ(Outcome(networks().Setup("db", Spec(20080))), "AlreadyExists");

  const NetworkStatus after = Make(Spec(20080));
  EXPECT_EQ(after.ipv4, before.ipv4);
  EXPECT_EQ(after.ipv6, before.ipv6);
  EXPECT_EQ(after.netns_inode, before.netns_inode);
  EXPECT_EQ(after.ports, before.ports);
  EXPECT_EQ(States(), std::vector{NetworkRecordState::kCreated});
  EXPECT_EQ(RecordOf("web")->interface, "eth0");
  EXPECT_EQ(Existing(), web_);
  ASSERT_EQ(MessageOf(TearAllDown()), "Ok");
  EXPECT_EQ(MessageOf(networks().Setup("db", Spec(20080))), "Ok");
}

TEST_F(NetworksFoundTest, AnyOtherSetupIsRefusedAndItStays) {
  const NetworkStatus before = Make(Spec(20080));
  LoseRecords();
  NetworkRequest none = Alone();
  NetworkRequest other = Spec(20080);
  other.network = "other";
  NetworkRequest elsewhere = Spec(20080);
  elsewhere.ipv4 = {10, 0, 0, 3};
  for (const NetworkRequest& spec :
       {none, other, elsewhere, Spec(20081), Spec()}) {
    const auto refused = networks().Setup("web", spec);
    EXPECT_EQ(Outcome(refused), "FailedPrecondition");
    EXPECT_NE(MessageOf(refused).find("release the allocation"),
              std::string::npos);
  }
  EXPECT_EQ(Outcome(networks().Setup("web", Spec(20080),
                                     GivenOf(before.netns_inode + 1))),
            "FailedPrecondition");
  EXPECT_EQ(executor().script().Count("CreateNetwork"), 0U);
  EXPECT_EQ(States(), std::vector{NetworkRecordState::kFound});
  EXPECT_EQ(Existing(), web_);
  EXPECT_EQ(MessageOf(TearAllDown()), "Ok");
  EXPECT_TRUE(Existing().empty());
}

TEST_F(NetworksFoundTest, ItsAddressAndNamespaceMayBeNamed) {
  const NetworkStatus before = Make(Spec(), GivenOf(77));
  LoseRecords();
  NetworkRequest spec;
  spec.ipv4 = before.ipv4;
  EXPECT_EQ(Make(spec, GivenOf(77)).ipv4, before.ipv4);
  EXPECT_EQ(RecordOf("web")->netns_inode, 77U);
  EXPECT_TRUE(RecordOf("web")->netns_given);
}

TEST(NetworksWithIpv6Alone, AreTakenOverToo) {
  Config config = Core::DefaultConfig();
  config.networks["six"].ipv6 = {*netns::ParseIpv6Range("fd66::/64")};
  Core core(config);
  NetworkRequest spec = Spec(20080);
  spec.network = "six";
  ASSERT_EQ(Outcome(core.networks->Setup("web", spec)), "Ok");
  const NetworkStatus web = core.networks->Get("web", "").value();
  const auto records = core.boot->networks.ListNetworks().value();
  for (const NetworkRecord& record : records) {
    ASSERT_EQ(Outcome(core.boot->networks.RemoveNetwork(record)), "Ok");
  }
  core.Restart();
  ASSERT_EQ(MessageOf(core.networks->Recover()), "Ok");
  const auto found = core.boot->networks.NetworksOf("web").value();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().state, NetworkRecordState::kFound);
  EXPECT_EQ(found.front().network, "six");
  EXPECT_EQ(found.front().ipv6, web.ipv6);
  NetworkRequest other = spec;
  other.ipv6 = *netns::ParseIpv6("fd66::9");
  EXPECT_EQ(Outcome(core.networks->Setup("web", other)), "FailedPrecondition");
  const auto again = core.networks->Setup("web", spec);
  ASSERT_EQ(MessageOf(again), "Ok");
  EXPECT_EQ(again->ipv6, web.ipv6);
  EXPECT_EQ(again->netns_inode, web.netns_inode);
}

// The kernel has the ports one by one, so their grouping does not matter.
TEST_F(NetworksFoundTest, PortsAreComparedHoweverTheyArePutTogether) {
  NetworkRequest range;
  range.ports = {{"a", 20000, 80, exec::kTcp | exec::kUdp, 2}};
  NetworkRequest each;
  each.ports = {{"t", 20000, 80, exec::kTcp, 2},
                {"u", 20000, 80, exec::kUdp},
                {"v", 20001, 81, exec::kUdp}};
  Make(range);
  LoseRecords();
  NetworkRequest other = each;
  other.ports.back().container_port = 82;
  EXPECT_EQ(Outcome(networks().Setup("web", other)), "FailedPrecondition");
  EXPECT_EQ(Make(each).ports.size(), 3U);
}

TEST_F(NetworksFoundTest, ANamespaceAloneIsTakenOverToo) {
  const NetworkStatus before = Make(Alone());
  LoseRecords();
  EXPECT_EQ(Outcome(networks().Setup("web", Spec())), "FailedPrecondition");
  EXPECT_EQ(Make(Alone()).netns_inode, before.netns_inode);
  EXPECT_EQ(States(), std::vector{NetworkRecordState::kCreated});
  // Its files count as lost: the next call writes them again, or removes them.
  ASSERT_EQ(MessageOf(TearAllDown()), "Ok");
  EXPECT_TRUE(Existing().empty());
}

TEST_F(NetworksFoundTest, ATakeOverThatFailsChangesNothing) {
  Make(Spec(20080));
  LoseRecords();
  executor().FailNext("CreateNetwork", Code::kFailedPrecondition);
  EXPECT_EQ(Outcome(networks().Setup("web", Spec(20080))),
            "FailedPrecondition");
  EXPECT_EQ(States(), std::vector{NetworkRecordState::kFound});
  EXPECT_EQ(Existing(), web_);
  EXPECT_EQ(Make(Spec(20080)).network, "default");
}

TEST_F(NetworksFoundTest, PortsOfATakeOverThatIsNotRecordedStayItsOwn) {
  Make(Spec(20080));
  LoseRecords();
  {
    const FailingWrites failing(core_.boot->database(), "INSERT", "networks");
    EXPECT_NE(Outcome(networks().Setup("web", Spec(20080))), "Ok");
  }
  EXPECT_EQ(States(), std::vector{NetworkRecordState::kFound});
  EXPECT_EQ(Outcome(networks().Setup("db", Spec(20080))), "AlreadyExists");
  // The ports go with the network.
  ASSERT_EQ(MessageOf(TearAllDown()), "Ok");
  EXPECT_EQ(MessageOf(networks().Setup("db", Spec(20080))), "Ok");
}

TEST_F(NetworksFoundTest, APortThatIsNamedTwiceIsRefusedAndStaysItsOwn) {
  Make(Spec(20080));
  LoseRecords();
  NetworkRequest twice = Spec(20080);
  twice.ports.push_back({"again", 20080, 80, exec::kTcp});
  EXPECT_EQ(Outcome(networks().Setup("web", twice)), "InvalidArgument");
  EXPECT_EQ(States(), std::vector{NetworkRecordState::kFound});
  EXPECT_EQ(Outcome(networks().Setup("db", Spec(20080))), "AlreadyExists");
  EXPECT_EQ(Make(Spec(20080)).ports.size(), 1U);
}

TEST_F(NetworksFoundTest, WhatIsOnItsWayOutIsQuarantined) {
  executor().KeepLinks();
  Make(Spec());
  ASSERT_EQ(MessageOf(TearAllDown()), "Ok");
  ASSERT_EQ(Outcome(core_.boot->networks.EndQuarantine(
                core_.boot->networks.ListQuarantine()->front())),
            "Ok");
  const std::uint32_t all = Free();
  LoseRecords();
  ASSERT_EQ(core_.boot->networks.ListQuarantine()->size(), 1U);
  EXPECT_EQ(Free(), all) << "as before";
  executor().EndLinks();
  networks().ReapQuarantine();
  EXPECT_EQ(Free(), all + 1);
}

TEST(NetworksFoundInOneNamespaceTest, AreTakenOverOneAfterTheOther) {
  Config config = Core::DefaultConfig();
  config.networks["second"].ipv4 = {*netns::ParseIpv4Range("10.1.0.0/29")};
  Core core(config);
  const NetworkRequest one = OnInterface("eth0", "default");
  const NetworkRequest two = OnInterface("eth1", "second");
  const auto setup = [&](const NetworkRequest& spec) {
    return core.networks->Setup("web", spec);
  };
  ASSERT_EQ(MessageOf(setup(one)), "Ok");
  ASSERT_EQ(MessageOf(setup(two)), "Ok");
  const auto records = core.boot->networks.ListNetworks();
  for (const NetworkRecord& record : *records) {
    ASSERT_EQ(Outcome(core.boot->networks.RemoveNetwork(record)), "Ok");
  }
  core.Restart();
  ASSERT_EQ(MessageOf(core.networks->Recover()), "Ok");
  const auto first = setup(two);
  ASSERT_EQ(MessageOf(first), "Ok");
  EXPECT_EQ(netns::ToString(first->ipv4), "10.1.0.2");
  // The same call again is right while the other network is still without a
  // record.
  const auto again = setup(two);
  ASSERT_EQ(MessageOf(again), "Ok");
  EXPECT_EQ(again->ipv4, first->ipv4);
  EXPECT_EQ(core.networks->Of("web")->size(), 1U);
  const auto second = setup(one);
  ASSERT_EQ(MessageOf(second), "Ok");
  EXPECT_EQ(second->netns_inode, first->netns_inode);
  EXPECT_EQ(core.networks->Of("web")->size(), 2U);
  EXPECT_EQ(core.executor->script().Count("CreateNetwork"), 4U);
  ASSERT_EQ(MessageOf(core.networks->Teardown("web", "eth1")), "Ok");
  EXPECT_EQ(core.executor->Existing(),
            (std::vector<std::string>{"link 10.0.0.2", "network web"}));
  ASSERT_EQ(MessageOf(core.networks->Teardown("web", "eth0")), "Ok");
  EXPECT_TRUE(core.executor->Existing().empty());
}

}  // namespace
}  // namespace mountd
