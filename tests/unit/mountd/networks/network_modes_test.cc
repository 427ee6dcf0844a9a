// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The modes of networks, and several networks of one allocation.
#include "tests/unit/mountd/networks/networks_test.h"

namespace mountd {
namespace {

NetworkRequest Mode(NetworkMode mode) {
  NetworkRequest spec;
  spec.mode = mode;
  return spec;
}

NetworkRequest On(const std::string& interface) {
  NetworkRequest spec;
  spec.interface = interface;
  return spec;
}

Config WithASecondNetwork() {
  Config config = Core::DefaultConfig();
  config.networks["second"].ipv4 = {*netns::ParseIpv4Range("10.1.0.0/29")};
  return config;
}

GivenNetns Given(std::uint64_t inode) {
  GivenNetns given;
  given.fd = 0;  // the fake takes any fd
  given.inode = inode;
  given.owner_uid = 1000;
  return given;
}

class NetworkModesTest : public NetworksTest {
 protected:
  std::string SetUpNetwork(const NetworkRequest& spec,
                           const GivenNetns& given = {}) {
    return Outcome(networks().Setup("web", spec, given));
  }
  Result<void> TearAllDown() {
    MOUNTD_ASSIGN(const auto order, networks().TeardownOrder("web"));
    for (const std::string& interface : order) {
      MOUNTD_TRY(networks().Teardown("web", interface));
    }
    return Ok();
  }
  exec::NetworkPlan LastPlan() {
    return executor().plans().back().body.network;
  }
};

TEST(SeveralNetworksTest, OneIsReadByItsInterface) {
  Core core(WithASecondNetwork());
  Networks& networks = *core.networks;
  EXPECT_EQ(Outcome(networks.Get("web", "")), "NotFound");
  ASSERT_EQ(Outcome(networks.Setup("web", On("eth0"))), "Ok");
  EXPECT_EQ(networks.Get("web", "")->interface, "eth0");
  EXPECT_EQ(networks.Get("web", "eth0")->netns_path, "/run/netns/web");
  EXPECT_EQ(Outcome(networks.Get("web", "eth1")), "NotFound");
  EXPECT_EQ(Outcome(networks.Get("db", "eth0")), "NotFound");
  NetworkRequest spec = On("eth1");
  spec.network = "second";
  ASSERT_EQ(Outcome(networks.Setup("web", spec)), "Ok");
  const auto unclear = networks.Get("web", "");
  EXPECT_EQ(Outcome(unclear), "InvalidArgument");
  EXPECT_NE(MessageOf(unclear).find("eth0, eth1"), std::string::npos);
  EXPECT_EQ(networks.Get("web", "eth1")->interface, "eth1");
}

TEST_F(NetworkModesTest, OnlyANamespaceOfItsOwnIsOpened) {
  ASSERT_EQ(SetUpNetwork(Mode(NetworkMode::kNone)), "Ok");
  const NetworkStatus alone = networks().Get("web", "").value();
  EXPECT_EQ(Outcome(networks().OpenNamespace("web", alone)), "Ok");
  EXPECT_EQ(LastPlan().netns_inode, alone.netns_inode);
  EXPECT_EQ(LastPlan().origin, exec::NamespaceOrigin::kExisting);
  ASSERT_EQ(Outcome(networks().Setup("db", Mode(NetworkMode::kHost))), "Ok");
  const NetworkStatus hosts = networks().Get("db", "").value();
  EXPECT_EQ(Outcome(networks().OpenNamespace("db", hosts)),
            "FailedPrecondition");
  executor().TakeNamespace("web");
  EXPECT_EQ(Outcome(networks().OpenNamespace("web", alone)),
            "FailedPrecondition");
}

class Ipv6AloneTest : public ::testing::Test {
 protected:
  static Config WithIpv6Alone() {
    Config config = Core::DefaultConfig();
    config.networks["six"].ipv6 = {*netns::ParseIpv6Range("fd66::/120")};
    return config;
  }
  static NetworkRequest Six(std::uint16_t host_port = 0) {
    NetworkRequest request = Spec(host_port);
    request.network = "six";
    return request;
  }
  Networks& networks() { return *core_.networks; }

  Core core_{WithIpv6Alone()};
};

TEST_F(Ipv6AloneTest, ANetworkHasNoIpv4AtAll) {
  EXPECT_EQ(networks().GetUsage().at("six").capacity, 254U);
  const auto web = networks().Setup("web", Six(20080));
  ASSERT_EQ(MessageOf(web), "Ok");
  EXPECT_TRUE(netns::IsNone(web->ipv4));
  EXPECT_TRUE(netns::IsNone(web->gateway4));
  EXPECT_EQ(netns::ToString(web->ipv6), "fd66::2");
  EXPECT_EQ(web->gateway6, netns::kGateway6);
  EXPECT_EQ(web->host_interface, netns::HostLinkName({}, web->ipv6));
  EXPECT_EQ(networks().GetUsage().at("six").free, 253U);
  EXPECT_EQ(MessageOf(networks().Setup("web", Six(20080))), "Ok");
  const auto db = networks().Setup("db", Six());
  ASSERT_EQ(MessageOf(db), "Ok");
  EXPECT_EQ(netns::ToString(db->ipv6), "fd66::3");
}

TEST_F(Ipv6AloneTest, WhatNeedsIpv4IsRefused) {
  NetworkRequest address = Six();
  address.ipv4 = {10, 0, 0, 2};
  EXPECT_EQ(Outcome(networks().Setup("web", address)), "InvalidArgument");
  NetworkRequest port = Six(20080);
  port.ports[0].host_address = netns::ParseHostIp("127.0.0.1").value();
  const auto refused = networks().Setup("web", port);
  EXPECT_EQ(Outcome(refused), "InvalidArgument");
  EXPECT_NE(MessageOf(refused).find("has no IPv4 range"), std::string::npos);
  EXPECT_EQ(networks().GetUsage().at("six").free, 254U);
  port.ports[0].host_address = netns::ParseHostIp("::").value();
  EXPECT_EQ(MessageOf(networks().Setup("web", port)), "Ok");
}

TEST_F(Ipv6AloneTest, AnAddressIsFreeOnlyOnceItsLinkIsGone) {
  core_.executor->KeepLinks();
  for (const std::string allocation : {"web", "db"}) {
    ASSERT_EQ(MessageOf(networks().Setup(allocation, Six())), "Ok");
    ASSERT_EQ(MessageOf(networks().Teardown(allocation, "eth0")), "Ok");
  }
  networks().ReapQuarantine();
  EXPECT_EQ(networks().GetUsage().at("six").free, 252U);
  core_.Restart();
  ASSERT_EQ(MessageOf(networks().Recover()), "Ok");
  EXPECT_EQ(networks().GetUsage().at("six").free, 252U);
  core_.executor->EndLinks();
  networks().ReapQuarantine();
  EXPECT_EQ(networks().GetUsage().at("six").free, 254U);
  EXPECT_TRUE(core_.boot->networks.ListQuarantine()->empty());
}

TEST_F(NetworkModesTest, NoneIsANamespaceWithoutAnAddress) {
  const auto status = networks().Setup("web", Mode(NetworkMode::kNone));
  ASSERT_EQ(MessageOf(status), "Ok");
  EXPECT_EQ(status->netns_path, "/run/netns/web");
  EXPECT_NE(status->netns_inode, 0U);
  EXPECT_TRUE(netns::IsNone(status->ipv4));
  EXPECT_EQ(status->host_interface, "");
  EXPECT_EQ(SetUpNetwork(Mode(NetworkMode::kNone)), "Ok");
  EXPECT_EQ(executor().script().Count("CreateNetwork"), 1U);
  EXPECT_EQ(MessageOf(TearAllDown()), "Ok");
  EXPECT_TRUE(Existing().empty());
  EXPECT_TRUE(core_.boot->networks.ListQuarantine()->empty());
}

// mountd maps no ports in mode "host", but checks them all the same.
TEST_F(NetworkModesTest, TheHostsPortsAreFreeOrRefused) {
  NetworkRequest host = Mode(NetworkMode::kHost);
  host.ports = {{"http", 20080, 0, exec::kTcp}};
  executor().PutHostSocket(20080);
  EXPECT_EQ(SetUpNetwork(host), "AlreadyExists");
  EXPECT_EQ(networks().CountFreePorts(20080, 20080), 1U);
  EXPECT_FALSE(RecordOf("web").has_value());
  GivenNetns keeper;
  keeper.keeper = 0;
  EXPECT_EQ(SetUpNetwork(host, keeper), "Ok");
  EXPECT_EQ(LastPlan().has_keeper, 1U);
  // mountd does not check again what the network has already.
  EXPECT_EQ(SetUpNetwork(host), "Ok");
  EXPECT_EQ(executor().script().Count("CheckHostPorts"), 2U);
}

TEST_F(NetworkModesTest, NothingIsReservedWhereTheKernelDoesNotTell) {
  NetworkRequest host = Mode(NetworkMode::kHost);
  host.ports = {{"http", 20080, 0, exec::kTcp}};
  executor().FailNext("CheckHostPorts", Code::kFailedPrecondition);
  EXPECT_EQ(SetUpNetwork(host), "FailedPrecondition");
  EXPECT_EQ(networks().CountFreePorts(20080, 20080), 1U);
  EXPECT_EQ(SetUpNetwork(host), "Ok");
}

TEST_F(NetworkModesTest, TheHostsKeepsPortsAndMakesNothing) {
  NetworkRequest host = Mode(NetworkMode::kHost);
  host.ports = {{"http", 20080, 0, exec::kTcp}};
  const auto status = networks().Setup("web", host);
  ASSERT_EQ(MessageOf(status), "Ok");
  EXPECT_EQ(status->netns_path, "");
  EXPECT_EQ(Outcome(networks().Setup("db", Spec(20080))), "AlreadyExists");
  EXPECT_EQ(SetUpNetwork(On("eth0")), "FailedPrecondition");
  core_.Restart();
  ASSERT_EQ(MessageOf(networks().Recover()), "Ok");
  EXPECT_EQ(Outcome(networks().Setup("db", Spec(20080))), "AlreadyExists");
  EXPECT_EQ(MessageOf(TearAllDown()), "Ok");
  EXPECT_EQ(Outcome(networks().Setup("db", Spec(20080))), "Ok");
  EXPECT_EQ(executor().script().Count("DeleteNetwork"), 0U);
}

TEST_F(NetworkModesTest, ADriversNamespaceIsUsedAndLeft) {
  EXPECT_EQ(SetUpNetwork(Mode(NetworkMode::kDriver)), "InvalidArgument");
  ASSERT_EQ(SetUpNetwork(Mode(NetworkMode::kDriver), Given(77)), "Ok");
  EXPECT_EQ(LastPlan().origin, exec::NamespaceOrigin::kGiven);
  EXPECT_EQ(LastPlan().netns_inode, 77U);
  EXPECT_EQ(LastPlan().owner_uid, 1000U);
  EXPECT_EQ(LastPlan().may_be_hosts, 0U);
  // The same call succeeds again; a second network cannot bring its own
  // namespace.
  EXPECT_EQ(SetUpNetwork(Mode(NetworkMode::kDriver), Given(77)), "Ok");
  EXPECT_EQ(SetUpNetwork(Mode(NetworkMode::kDriver), Given(78)),
            "FailedPrecondition");
  EXPECT_EQ(SetUpNetwork(Mode(NetworkMode::kNone)), "FailedPrecondition");

  ASSERT_EQ(SetUpNetwork(Spec(20080)), "Ok");
  EXPECT_EQ(LastPlan().origin, exec::NamespaceOrigin::kExisting);
  EXPECT_EQ(LastPlan().netns_inode, 77U);
  EXPECT_EQ(Outcome(networks().Teardown("web", "lo")), "FailedPrecondition");
  EXPECT_EQ(MessageOf(TearAllDown()), "Ok");
  EXPECT_EQ(LastPlan().origin, exec::NamespaceOrigin::kGiven);
  EXPECT_TRUE(Existing().empty());
}

// The plan carries the right of the caller's rule, because the executor checks
// its own configuration, too.
TEST_F(NetworkModesTest, ANamespaceMayBeTheHostsWhereARuleSaysSo) {
  GivenNetns given = Given(77);
  given.may_be_hosts = true;
  ASSERT_EQ(SetUpNetwork(Mode(NetworkMode::kDriver), given), "Ok");
  EXPECT_EQ(LastPlan().may_be_hosts, 1U);
}

TEST_F(NetworkModesTest, ABridgeMayComeWithItsNamespace) {
  ASSERT_EQ(SetUpNetwork(Spec(20080), Given(77)), "Ok");
  EXPECT_EQ(LastPlan().origin, exec::NamespaceOrigin::kGiven);
  EXPECT_EQ(SetUpNetwork(Spec(20080), Given(77)), "Ok");
  EXPECT_EQ(SetUpNetwork(Spec(20080)), "Ok");
  EXPECT_EQ(SetUpNetwork(Spec(20080), Given(78)), "FailedPrecondition");
  EXPECT_EQ(MessageOf(TearAllDown()), "Ok");
}

TEST_F(NetworkModesTest, ANamespaceAloneComesFirst) {
  ASSERT_EQ(SetUpNetwork(Spec(), Given(77)), "Ok");
  EXPECT_EQ(SetUpNetwork(Mode(NetworkMode::kDriver), Given(77)),
            "FailedPrecondition");
  EXPECT_EQ(SetUpNetwork(Mode(NetworkMode::kNone)), "FailedPrecondition");
  EXPECT_EQ(core_.boot->networks.NetworksOf("web")->size(), 1U);
  ASSERT_EQ(MessageOf(TearAllDown()), "Ok");
  for (const auto mode : {NetworkMode::kDriver, NetworkMode::kNone}) {
    const GivenNetns given =
        mode == NetworkMode::kDriver ? Given(77) : GivenNetns{};
    ASSERT_EQ(SetUpNetwork(Mode(mode), given), "Ok");
    ASSERT_EQ(SetUpNetwork(Spec()), "Ok");
    EXPECT_EQ(SetUpNetwork(Mode(mode), given), "Ok") << "the same again";
    ASSERT_EQ(MessageOf(TearAllDown()), "Ok");
  }
}

TEST(SeveralNetworksTest, AreInOneNamespaceThatGoesWithTheLast) {
  Core core(WithASecondNetwork());
  Networks& networks = *core.networks;
  const auto origin = [&] {
    return core.executor->plans().back().body.network.origin;
  };
  const auto first = networks.Setup("web", {});
  ASSERT_EQ(MessageOf(first), "Ok");
  EXPECT_EQ(Outcome(networks.Setup("web", On("eth1"))), "FailedPrecondition")
      << "the same network";
  NetworkRequest spec = On("eth1");
  spec.network = "second";
  const auto second = networks.Setup("web", spec);
  ASSERT_EQ(MessageOf(second), "Ok");
  EXPECT_EQ(second->netns_inode, first->netns_inode);
  EXPECT_EQ(netns::ToString(second->ipv4), "10.1.0.2");
  EXPECT_TRUE(first->default_route);
  EXPECT_FALSE(second->default_route);
  EXPECT_EQ(networks.Of("web")->size(), 2U);
  ASSERT_EQ(MessageOf(networks.Teardown("web", "eth0")), "Ok");
  EXPECT_EQ(origin(), exec::NamespaceOrigin::kExisting);
  EXPECT_EQ(core.executor->Existing(),
            (std::vector<std::string>{"link 10.1.0.2", "network web"}));
  ASSERT_EQ(MessageOf(networks.Teardown("web", "eth1")), "Ok");
  EXPECT_EQ(origin(), exec::NamespaceOrigin::kNew);
  EXPECT_TRUE(core.executor->Existing().empty());
}

TEST_F(NetworkModesTest, AddressesCanBeAskedFor) {
  NetworkRequest spec;
  spec.ipv4 = {10, 0, 0, 5};
  spec.ipv6 = *netns::ParseIpv6("fd00::abcd");
  const auto status = networks().Setup("web", spec);
  ASSERT_EQ(MessageOf(status), "Ok");
  EXPECT_EQ(status->ipv4, spec.ipv4);
  EXPECT_EQ(status->ipv6, spec.ipv6);
  EXPECT_EQ(SetUpNetwork(spec), "Ok");
  EXPECT_EQ(Outcome(networks().Setup("db", spec)), "AlreadyExists");
  NetworkRequest other = spec;
  other.ipv4 = {10, 0, 0, 4};
  EXPECT_EQ(Outcome(networks().Setup("db", other)), "AlreadyExists");
  other.ipv6 = {};
  EXPECT_EQ(Outcome(networks().Setup("db", other)), "Ok") << "was not kept";
  EXPECT_EQ(SetUpNetwork(other), "FailedPrecondition");
}

TEST_F(NetworkModesTest, WhatIsAskedForGoesIntoThePlan) {
  NetworkRequest spec;
  spec.isolated = true;
  spec.default_route = false;
  spec.ports = {
      {"a", 20000, 0, exec::kTcp, 10, *netns::ParseHostIp("192.0.2.1")},
      {"b", 20000, 80, exec::kTcp, 1, *netns::ParseHostIp("fd00::1")}};
  ASSERT_EQ(SetUpNetwork(spec), "Ok");
  const exec::NetworkPlan plan = LastPlan();
  EXPECT_EQ(plan.flags, exec::kIsolated);
  ASSERT_EQ(plan.port_count, 2U);
  EXPECT_EQ(plan.ports[0].count, 10);
  EXPECT_EQ(plan.ports[0].host_family, 4);
  EXPECT_EQ(plan.ports[0].host_address[0], 192);
  EXPECT_EQ(plan.ports[0].container_port, 20000);
  EXPECT_EQ(plan.ports[1].host_family, 6);
  const auto restarted = [&] {
    core_.Restart();
    EXPECT_EQ(MessageOf(networks().Recover()), "Ok");
    return networks().Of("web")->front();
  }();
  EXPECT_TRUE(restarted.isolated);
  EXPECT_FALSE(restarted.default_route);
  ASSERT_EQ(restarted.ports.size(), 2U);
  EXPECT_EQ(restarted.ports[0].host_address, spec.ports[0].host_address);
  EXPECT_EQ(restarted.ports[0].count, 10);
  EXPECT_EQ(networks().CountFreePorts(20000, 20019), 10U);
}

TEST_F(NetworkModesTest, ARangeEndsAtTheLastPort) {
  NetworkRequest spec;
  spec.ports = {{"a", 65530, 0, exec::kTcp, 7}};
  EXPECT_EQ(SetUpNetwork(spec), "InvalidArgument");
  spec.ports = {{"a", 100, 65535, exec::kTcp, 2}};
  EXPECT_EQ(SetUpNetwork(spec), "InvalidArgument");
  spec.ports = {{"a", 20000, 0, exec::kTcp, exec::kMaxPortsInAll + 1}};
  EXPECT_EQ(SetUpNetwork(spec), "ResourceExhausted");
}

TEST(NoNetworksTest, WithoutNetworksThereAreNamespaces) {
  Config config = Core::DefaultConfig();
  config.networks.clear();
  Core core(config);
  EXPECT_EQ(MessageOf(core.networks->Recover()), "Ok");
  EXPECT_TRUE(core.networks->GetUsage().empty());
  NetworkRequest none;
  none.mode = NetworkMode::kNone;
  EXPECT_EQ(MessageOf(core.networks->Setup("web", none)), "Ok");
  EXPECT_EQ(core.executor->Existing(), std::vector<std::string>{"network web"});
}

}  // namespace
}  // namespace mountd
