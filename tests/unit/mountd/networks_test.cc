// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/networks.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/support/core.h"
#include "tests/support/outcome.h"

namespace mountd {
namespace {

NetworkSpec Spec(std::uint16_t host_port = 0) {
  NetworkSpec spec;
  if (host_port != 0) {
    spec.ports.push_back({"http", host_port, 80, exec::kTcp});
  }
  return spec;
}

// A listening socket on a port that the kernel chose.
class Listener {
 public:
  Listener() : socket_(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    socklen_t size = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    listening_ = bind(socket_.get(), any, size) == 0 &&
                 listen(socket_.get(), 1) == 0 &&
                 getsockname(socket_.get(), any, &size) == 0;
    port_ = ntohs(address.sin6_port);
  }
  bool listening() const { return listening_; }
  std::uint16_t port() const { return port_; }

 private:
  UniqueFd socket_;
  bool listening_ = false;
  std::uint16_t port_ = 0;
};

class NetworksTest : public ::testing::Test {
 protected:
  exec::FakeExecutor& executor() { return *core_.executor; }
  Networks& networks() { return *core_.networks; }
  std::uint32_t Free() { return networks().GetUsage().at("default").free; }
  std::optional<NetworkRecord> RecordOf(const std::string& allocation) {
    const auto records = core_.boot->NetworksOf(allocation).value();
    return records.empty() ? std::nullopt : std::optional(records.front());
  }
  Result<void> Teardown(const std::string& allocation) {
    return networks().Teardown(allocation, "eth0");
  }
  std::optional<NetworkStatus> Get(const std::string& allocation) {
    const auto all = networks().Of(allocation).value();
    return all.empty() ? std::nullopt : std::optional(all.front());
  }
  std::vector<std::string> Existing() { return executor().Existing(); }

  const std::vector<std::string> web_ = {"link 10.0.0.2", "network web"};
  Core core_;
};

TEST_F(NetworksTest, ANetworkIsThereAndRecorded) {
  const auto status = networks().Setup("web", Spec(20080));
  ASSERT_EQ(MessageOf(status), "Ok");
  EXPECT_EQ(status->network, "default");
  EXPECT_EQ(status->netns_path, "/run/netns/web");
  EXPECT_EQ(status->interface, "eth0");
  EXPECT_EQ(status->host_interface, "md0a000002");
  EXPECT_EQ(netns::ToString(status->ipv4), "10.0.0.2");
  EXPECT_EQ(netns::ToString(status->ipv6), "fd00::2");
  ASSERT_EQ(status->ports.size(), 1U);
  EXPECT_EQ(status->ports[0], (PortMapping{"http", 20080, 80, exec::kTcp}));
  const NetworkRecord record = RecordOf("web").value();
  EXPECT_EQ(record.state, NetworkRecordState::kCreated);
  EXPECT_NE(record.netns_inode, 0U);
  EXPECT_EQ(record.netns_inode, status->netns_inode);
  EXPECT_EQ(Existing(), web_);

  const exec::NetworkPlan plan = executor().plans().back().body.network;
  EXPECT_EQ(plan.network.view(), "default");
  ASSERT_EQ(plan.port_count, 1U);
  EXPECT_EQ(plan.ports[0].host_port, 20080);
  EXPECT_EQ(plan.ports[0].container_port, 80);
  EXPECT_EQ(plan.ports[0].protocols, exec::kTcp);
}

TEST_F(NetworksTest, TheSameAgainAnswersTheSame) {
  const auto first = networks().Setup("web", Spec(20080));
  core_.Restart();
  ASSERT_EQ(MessageOf(networks().Recover()), "Ok");
  const auto second = networks().Setup("web", Spec(20080));
  ASSERT_EQ(MessageOf(second), "Ok");
  EXPECT_EQ(second->netns_inode, first->netns_inode);
  EXPECT_EQ(second->ipv4, first->ipv4);
  EXPECT_EQ(second->ipv6, first->ipv6);
  EXPECT_EQ(second->host_interface, first->host_interface);
  EXPECT_EQ(second->ports, first->ports);
  EXPECT_EQ(executor().script().Count("CreateNetwork"), 1U);
}

TEST_F(NetworksTest, AnotherSpecOfTheSameAllocationIsFailedPrecondition) {
  ASSERT_EQ(MessageOf(networks().Setup("web", Spec(20080))), "Ok");
  EXPECT_EQ(Outcome(networks().Setup("web", Spec(20081))),
            "FailedPrecondition");
  EXPECT_EQ(Outcome(networks().Setup("web", Spec())), "FailedPrecondition");
  EXPECT_EQ(Existing(), web_);
}

TEST_F(NetworksTest, AContainerPortIsTheHostPortUnlessGiven) {
  NetworkSpec spec;
  spec.ports.push_back({"dns", 20053, 0, exec::kTcp | exec::kUdp});
  ASSERT_EQ(MessageOf(networks().Setup("web", spec)), "Ok");
  EXPECT_EQ(Get("web")->ports[0].container_port, 20053);
  EXPECT_EQ(MessageOf(networks().Setup("web", spec)), "Ok");
}

TEST_F(NetworksTest, BadPortsAreInvalidAndTooManyAreExhausted) {
  NetworkSpec no_host_port;
  no_host_port.ports.push_back({"x", 0, 80, exec::kTcp});
  EXPECT_EQ(Outcome(networks().Setup("web", no_host_port)), "InvalidArgument");
  NetworkSpec no_protocol;
  no_protocol.ports.push_back({"x", 20080, 80, 0});
  EXPECT_EQ(Outcome(networks().Setup("web", no_protocol)), "InvalidArgument");
  NetworkSpec many;
  for (std::size_t i = 0; i <= exec::kMaxPorts; ++i) {
    many.ports.push_back(
        {"x", static_cast<std::uint16_t>(20000 + i), 0, exec::kTcp});
  }
  EXPECT_EQ(Outcome(networks().Setup("web", many)), "ResourceExhausted");
  EXPECT_TRUE(executor().plans().empty());
}

TEST_F(NetworksTest, APortOfAnotherIsAlreadyExistsAndNothingIsMade) {
  ASSERT_EQ(MessageOf(networks().Setup("web", Spec(20080))), "Ok");
  const std::uint32_t before = Free();
  const auto refused = networks().Setup("db", Spec(20080));
  EXPECT_EQ(Outcome(refused), "AlreadyExists");
  EXPECT_NE(MessageOf(refused).find("host port 20080/tcp"), std::string::npos);
  EXPECT_EQ(Free(), before);
  EXPECT_FALSE(RecordOf("db").has_value());
  EXPECT_EQ(Existing(), web_);
  // The same port of the other protocol is another port.
  NetworkSpec udp;
  udp.ports.push_back({"http", 20080, 80, exec::kUdp});
  EXPECT_EQ(MessageOf(networks().Setup("db", udp)), "Ok");
}

TEST_F(NetworksTest, APortThatASocketOfTheHostHasIsAlreadyExists) {
  const Listener listener;
  ASSERT_TRUE(listener.listening());
  const std::uint32_t before = Free();
  EXPECT_EQ(Outcome(networks().Setup("web", Spec(listener.port()))),
            CodeName(CodeFromErrno(EADDRINUSE)));
  EXPECT_EQ(Free(), before);
  EXPECT_FALSE(RecordOf("web").has_value());
  EXPECT_TRUE(executor().plans().empty());
}

TEST_F(NetworksTest, AnUndeclaredNetworkIsNotFound) {
  NetworkSpec spec;
  spec.network = "other";
  EXPECT_EQ(Outcome(networks().Setup("web", spec)), "NotFound");
}

TEST_F(NetworksTest, TearingDownFreesPortsAtOnceAndTheAddressLater) {
  executor().KeepLinks();
  ASSERT_EQ(MessageOf(networks().Setup("web", Spec(20080))), "Ok");
  const std::uint32_t with_web = Free();
  ASSERT_EQ(MessageOf(Teardown("web")), "Ok");
  EXPECT_EQ(core_.checks, 1);
  EXPECT_FALSE(RecordOf("web").has_value());
  EXPECT_FALSE(Get("web").has_value());
  EXPECT_EQ(Free(), with_web);
  ASSERT_EQ(core_.boot->ListQuarantine()->size(), 1U);

  const auto next = networks().Setup("db", Spec(20080));
  ASSERT_EQ(MessageOf(next), "Ok");
  EXPECT_EQ(netns::ToString(next->ipv4), "10.0.0.3");

  networks().ReapQuarantine();
  EXPECT_EQ(core_.checks, 2);  // the link is still there: once more
  EXPECT_EQ(core_.boot->ListQuarantine()->size(), 1U);
  executor().EndLinks();
  networks().ReapQuarantine();
  EXPECT_EQ(core_.checks, 2);
  EXPECT_TRUE(core_.boot->ListQuarantine()->empty());
  EXPECT_EQ(Free(), with_web);  // web's is free, db's is taken
}

TEST_F(NetworksTest, ALinkThatStaysIsDeletedWithTheNetworkItWasOf) {
  executor().KeepLinks();
  const auto made = networks().Setup("web", Spec());
  ASSERT_EQ(MessageOf(Teardown("web")), "Ok");
  executor().script().Forget();
  networks().ReapQuarantine();
  EXPECT_EQ(
      executor().script().calls(),
      (std::vector<std::string>{"InspectNetwork web", "DeleteNetwork web"}));
  const exec::NetworkPlan plan = executor().plans().back().body.network;
  // Whatever namespace has its name by now stays.
  EXPECT_EQ(plan.origin, exec::NamespaceOrigin::kExisting);
  EXPECT_EQ(plan.ipv4, made->ipv4);
}

TEST_F(NetworksTest, ALinkHasSomeTimeToGoByItself) {
  core_.link_grace = std::chrono::hours(1);
  core_.Restart();
  executor().KeepLinks();
  ASSERT_EQ(MessageOf(networks().Setup("web", Spec())), "Ok");
  ASSERT_EQ(MessageOf(Teardown("web")), "Ok");
  networks().ReapQuarantine();
  networks().ReapQuarantine();
  EXPECT_EQ(executor().script().Count("DeleteNetwork"), 1U);
  EXPECT_EQ(core_.checks, 3);
}

TEST_F(NetworksTest, AnUnansweredQuestionKeepsTheQuarantine) {
  ASSERT_EQ(MessageOf(networks().Setup("web", Spec())), "Ok");
  ASSERT_EQ(MessageOf(Teardown("web")), "Ok");
  executor().FailNext("InspectNetwork", Code::kUnavailable);
  networks().ReapQuarantine();
  EXPECT_EQ(core_.boot->ListQuarantine()->size(), 1U);
  EXPECT_EQ(core_.checks, 2);
}

TEST_F(NetworksTest, TearingDownIsIdempotent) {
  EXPECT_EQ(MessageOf(Teardown("web")), "Ok");
  ASSERT_EQ(MessageOf(networks().Setup("web", Spec())), "Ok");
  EXPECT_EQ(MessageOf(Teardown("web")), "Ok");
  EXPECT_EQ(MessageOf(Teardown("web")), "Ok");
  EXPECT_EQ(executor().script().Count("DeleteNetwork"), 1U);
  EXPECT_TRUE(Existing().empty());
}

TEST_F(NetworksTest, AllAddressesTakenIsResourceExhausted) {
  const std::uint32_t capacity = networks().GetUsage().at("default").capacity;
  EXPECT_EQ(capacity, 5U);  // of a /29: 2 to 6
  for (std::uint32_t i = 0; i < capacity; ++i) {
    ASSERT_EQ(MessageOf(networks().Setup("a" + std::to_string(i), Spec())),
              "Ok");
  }
  EXPECT_EQ(Free(), 0U);
  EXPECT_EQ(Outcome(networks().Setup("one-more", Spec())), "ResourceExhausted");
  EXPECT_FALSE(RecordOf("one-more").has_value());
}

TEST_F(NetworksTest, AFailureBeforeTheEffectLeavesNothing) {
  executor().FailNext("CreateNetwork", Code::kInternal);
  EXPECT_EQ(Outcome(networks().Setup("web", Spec(20080))), "Internal");
  EXPECT_FALSE(RecordOf("web").has_value());
  EXPECT_TRUE(Existing().empty());
  EXPECT_EQ(MessageOf(networks().Setup("db", Spec(20080))), "Ok");
}

TEST_F(NetworksTest, AnUnknownOutcomeIsUndone) {
  executor().FailNext("CreateNetwork", Code::kDeadlineExceeded,
                      FailWhen::kAfter);
  EXPECT_EQ(Outcome(networks().Setup("web", Spec(20080))), "DeadlineExceeded");
  EXPECT_FALSE(RecordOf("web").has_value());
  EXPECT_TRUE(Existing().empty());
}

TEST_F(NetworksTest, WhatCannotBeUndoneIsUndoneByTheNextSetup) {
  executor().FailNext("CreateNetwork", Code::kUnavailable, FailWhen::kAfter);
  executor().FailNext("DeleteNetwork", Code::kUnavailable);
  EXPECT_EQ(Outcome(networks().Setup("web", Spec(20080))), "Unavailable");
  EXPECT_EQ(RecordOf("web")->state, NetworkRecordState::kDeleting);
  EXPECT_FALSE(Get("web").has_value());
  // Its port is not free before it is gone.
  EXPECT_EQ(Outcome(networks().Setup("db", Spec(20080))), "AlreadyExists");
  const auto again = networks().Setup("web", Spec(20080));
  ASSERT_EQ(MessageOf(again), "Ok");
  EXPECT_EQ(RecordOf("web")->state, NetworkRecordState::kCreated);
  EXPECT_EQ(executor().script().Count("DeleteNetwork"), 2U);
}

TEST_F(NetworksTest, ADeleteThatFailsIsTriedAgain) {
  ASSERT_EQ(MessageOf(networks().Setup("web", Spec())), "Ok");
  executor().SetBusy("web");
  EXPECT_EQ(Outcome(Teardown("web")), "Busy");
  EXPECT_EQ(RecordOf("web")->state, NetworkRecordState::kDeleting);
  executor().SetBusy("web", false);
  EXPECT_EQ(MessageOf(Teardown("web")), "Ok");
  EXPECT_TRUE(Existing().empty());
}

// ---- Modes, and several networks ----

NetworkSpec Mode(NetworkMode mode) {
  NetworkSpec spec;
  spec.mode = mode;
  return spec;
}

NetworkSpec On(const std::string& interface) {
  NetworkSpec spec;
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
  given.fd = 0;  // the fake takes any
  given.inode = inode;
  given.owner_uid = 1000;
  return given;
}

class NetworkModesTest : public NetworksTest {
 protected:
  std::string Setup(const NetworkSpec& spec, const GivenNetns& given = {}) {
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

TEST_F(NetworkModesTest, NoneIsANamespaceWithoutAnAddress) {
  const auto status = networks().Setup("web", Mode(NetworkMode::kNone));
  ASSERT_EQ(MessageOf(status), "Ok");
  EXPECT_EQ(status->netns_path, "/run/netns/web");
  EXPECT_NE(status->netns_inode, 0U);
  EXPECT_TRUE(netns::IsNone(status->ipv4));
  EXPECT_EQ(status->host_interface, "");
  EXPECT_EQ(Setup(Mode(NetworkMode::kNone)), "Ok");
  EXPECT_EQ(executor().script().Count("CreateNetwork"), 1U);
  EXPECT_EQ(MessageOf(TearAllDown()), "Ok");
  EXPECT_TRUE(Existing().empty());
  EXPECT_TRUE(core_.boot->ListQuarantine()->empty());
}

TEST_F(NetworkModesTest, TheHostsKeepsPortsAndMakesNothing) {
  NetworkSpec host = Mode(NetworkMode::kHost);
  host.ports = {{"http", 20080, 0, exec::kTcp}};
  const auto status = networks().Setup("web", host);
  ASSERT_EQ(MessageOf(status), "Ok");
  EXPECT_EQ(status->netns_path, "");
  EXPECT_EQ(Outcome(networks().Setup("db", Spec(20080))), "AlreadyExists");
  EXPECT_EQ(Setup(On("eth0")), "FailedPrecondition");
  core_.Restart();
  ASSERT_EQ(MessageOf(networks().Recover()), "Ok");
  EXPECT_EQ(Outcome(networks().Setup("db", Spec(20080))), "AlreadyExists");
  EXPECT_EQ(MessageOf(TearAllDown()), "Ok");
  EXPECT_EQ(Outcome(networks().Setup("db", Spec(20080))), "Ok");
  EXPECT_EQ(executor().script().Count("DeleteNetwork"), 0U);
}

TEST_F(NetworkModesTest, ADriversNamespaceIsUsedAndLeft) {
  EXPECT_EQ(Setup(Mode(NetworkMode::kDriver)), "InvalidArgument");
  ASSERT_EQ(Setup(Mode(NetworkMode::kDriver), Given(77)), "Ok");
  EXPECT_EQ(LastPlan().origin, exec::NamespaceOrigin::kGiven);
  EXPECT_EQ(LastPlan().netns_inode, 77U);
  EXPECT_EQ(LastPlan().owner_uid, 1000U);
  // The same again is the same; a second one who initiates is refused.
  EXPECT_EQ(Setup(Mode(NetworkMode::kDriver), Given(77)), "Ok");
  EXPECT_EQ(Setup(Mode(NetworkMode::kDriver), Given(78)), "FailedPrecondition");
  EXPECT_EQ(Setup(Mode(NetworkMode::kNone)), "FailedPrecondition");

  ASSERT_EQ(Setup(Spec(20080)), "Ok");
  EXPECT_EQ(LastPlan().origin, exec::NamespaceOrigin::kExisting);
  EXPECT_EQ(LastPlan().netns_inode, 77U);
  EXPECT_EQ(Outcome(networks().Teardown("web", "lo")), "FailedPrecondition");
  EXPECT_EQ(MessageOf(TearAllDown()), "Ok");
  EXPECT_EQ(LastPlan().origin, exec::NamespaceOrigin::kGiven);
  EXPECT_TRUE(Existing().empty());
}

TEST_F(NetworkModesTest, ABridgeMayComeWithItsNamespace) {
  ASSERT_EQ(Setup(Spec(20080), Given(77)), "Ok");
  EXPECT_EQ(LastPlan().origin, exec::NamespaceOrigin::kGiven);
  EXPECT_EQ(Setup(Spec(20080), Given(77)), "Ok");
  EXPECT_EQ(Setup(Spec(20080)), "Ok");
  EXPECT_EQ(Setup(Spec(20080), Given(78)), "FailedPrecondition");
  EXPECT_EQ(MessageOf(TearAllDown()), "Ok");
}

TEST_F(NetworkModesTest, ANamespaceAloneComesFirst) {
  ASSERT_EQ(Setup(Spec(), Given(77)), "Ok");
  EXPECT_EQ(Setup(Mode(NetworkMode::kDriver), Given(77)), "FailedPrecondition");
  EXPECT_EQ(Setup(Mode(NetworkMode::kNone)), "FailedPrecondition");
  EXPECT_EQ(core_.boot->NetworksOf("web")->size(), 1U);
  ASSERT_EQ(MessageOf(TearAllDown()), "Ok");
  for (const auto mode : {NetworkMode::kDriver, NetworkMode::kNone}) {
    const GivenNetns given =
        mode == NetworkMode::kDriver ? Given(77) : GivenNetns{};
    ASSERT_EQ(Setup(Mode(mode), given), "Ok");
    ASSERT_EQ(Setup(Spec()), "Ok");
    EXPECT_EQ(Setup(Mode(mode), given), "Ok") << "the same again";
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
  NetworkSpec spec = On("eth1");
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
  NetworkSpec spec;
  spec.ipv4 = {10, 0, 0, 5};
  spec.ipv6 = *netns::ParseIpv6("fd00::abcd");
  const auto status = networks().Setup("web", spec);
  ASSERT_EQ(MessageOf(status), "Ok");
  EXPECT_EQ(status->ipv4, spec.ipv4);
  EXPECT_EQ(status->ipv6, spec.ipv6);
  EXPECT_EQ(Setup(spec), "Ok");
  EXPECT_EQ(Outcome(networks().Setup("db", spec)), "AlreadyExists");
  NetworkSpec other = spec;
  other.ipv4 = {10, 0, 0, 4};
  EXPECT_EQ(Outcome(networks().Setup("db", other)), "AlreadyExists");
  other.ipv6 = {};
  EXPECT_EQ(Outcome(networks().Setup("db", other)), "Ok") << "was not kept";
  EXPECT_EQ(Setup(other), "FailedPrecondition");
}

TEST_F(NetworkModesTest, WhatIsAskedForGoesIntoThePlan) {
  NetworkSpec spec;
  spec.isolated = true;
  spec.default_route = false;
  spec.ports = {
      {"a", 20000, 0, exec::kTcp, 10, *netns::ParseHostIp("192.0.2.1")},
      {"b", 20000, 80, exec::kTcp, 1, *netns::ParseHostIp("fd00::1")}};
  ASSERT_EQ(Setup(spec), "Ok");
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
  NetworkSpec spec;
  spec.ports = {{"a", 65530, 0, exec::kTcp, 7}};
  EXPECT_EQ(Setup(spec), "InvalidArgument");
  spec.ports = {{"a", 100, 65535, exec::kTcp, 2}};
  EXPECT_EQ(Setup(spec), "InvalidArgument");
  spec.ports = {{"a", 20000, 0, exec::kTcp, exec::kMaxPortsInAll + 1}};
  EXPECT_EQ(Setup(spec), "ResourceExhausted");
}

TEST_F(NetworkModesTest, ThatFewAddressesAreLeftIsToldOnce) {
  std::vector<std::string> made;
  while (Free() > 0) {
    made.push_back("a" + std::to_string(made.size()));
    ASSERT_EQ(MessageOf(networks().Setup(made.back(), Spec())), "Ok");
  }
  EXPECT_EQ(core_.scarce, std::vector<std::string>{"default 0"});
  const auto free_one = [&](const std::string& id) {
    ASSERT_EQ(MessageOf(networks().Teardown(id, "eth0")), "Ok");
    networks().ReapQuarantine();
  };
  free_one("a0");
  ASSERT_EQ(Outcome(networks().Setup("a0", Spec())), "Ok");
  EXPECT_EQ(core_.scarce.size(), 1U);
  free_one("a1");
  free_one("a2");
  ASSERT_EQ(Outcome(networks().Setup("a1", Spec())), "Ok");
  ASSERT_EQ(Outcome(networks().Setup("a2", Spec())), "Ok");
  EXPECT_EQ(core_.scarce.size(), 2U);
}

TEST_F(NetworkModesTest, RepairSaysWhatItPutRight) {
  const auto made = networks().Setup("web", Spec());
  ASSERT_EQ(MessageOf(made), "Ok");
  const NetworkRecord record = RecordOf("web").value();
  EXPECT_EQ(networks().Repair(record).value(), 0U);
  executor().TakeLink(netns::ToString(made->ipv4));
  EXPECT_EQ(networks().Repair(record).value(), exec::kRepairedLink);
  EXPECT_EQ(Existing(), web_);
  executor().TakeNamespace("web");
  EXPECT_EQ(Outcome(networks().Repair(record)), "FailedPrecondition");
}

// ---- After a restart ----

TEST_F(NetworksTest, AddressesOfRecordsAndOfTheQuarantineAreTaken) {
  executor().KeepLinks();
  ASSERT_EQ(MessageOf(networks().Setup("gone", Spec())), "Ok");
  ASSERT_EQ(MessageOf(networks().Setup("web", Spec())), "Ok");
  ASSERT_EQ(MessageOf(Teardown("gone")), "Ok");
  core_.Restart();
  core_.checks = 0;
  ASSERT_EQ(MessageOf(networks().Recover()), "Ok");
  EXPECT_EQ(core_.checks, 1);
  EXPECT_EQ(Free(), 3U);
  EXPECT_EQ(netns::ToString(networks().Setup("db", Spec())->ipv4), "10.0.0.4");
}

TEST_F(NetworksTest, WhatWasUnderWayIsRolledBack) {
  for (const auto state :
       {NetworkRecordState::kCreating, NetworkRecordState::kDeleting}) {
    const auto made = networks().Setup("web", Spec(20080));
    ASSERT_EQ(MessageOf(made), "Ok");
    NetworkRecord record = RecordOf("web").value();
    record.state = state;
    record.netns_inode =
        state == NetworkRecordState::kCreating ? 0 : made->netns_inode;
    ASSERT_EQ(Outcome(core_.boot->SetNetworkState(record)), "Ok");
    core_.Restart();
    EXPECT_EQ(MessageOf(networks().Recover()), "Ok");
    EXPECT_FALSE(RecordOf("web").has_value());
    EXPECT_TRUE(Existing().empty());
  }
}

TEST_F(NetworksTest, ARollBackThatFailsDoesNotKeepFromStarting) {
  ASSERT_EQ(MessageOf(networks().Setup("web", Spec())), "Ok");
  executor().SetBusy("web");
  ASSERT_EQ(Outcome(Teardown("web")), "Busy");
  core_.Restart();
  EXPECT_EQ(MessageOf(networks().Recover()), "Ok");
  EXPECT_EQ(RecordOf("web")->state, NetworkRecordState::kDeleting);
  EXPECT_EQ(Free(), 4U);
}

TEST(NoNetworksTest, WithoutNetworksThereAreNamespaces) {
  Config config = Core::DefaultConfig();
  config.networks.clear();
  Core core(config);
  EXPECT_EQ(MessageOf(core.networks->Recover()), "Ok");
  EXPECT_TRUE(core.networks->GetUsage().empty());
  NetworkSpec none;
  none.mode = NetworkMode::kNone;
  EXPECT_EQ(MessageOf(core.networks->Setup("web", none)), "Ok");
  EXPECT_EQ(core.executor->Existing(), std::vector<std::string>{"network web"});
}

}  // namespace
}  // namespace mountd
