// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/mountd/networks/networks_test.h"

#include <cerrno>

namespace mountd {
namespace {

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
  NetworkRequest spec;
  spec.ports.push_back({"dns", 20053, 0, exec::kTcp | exec::kUdp});
  ASSERT_EQ(MessageOf(networks().Setup("web", spec)), "Ok");
  EXPECT_EQ(Get("web")->ports[0].container_port, 20053);
  EXPECT_EQ(MessageOf(networks().Setup("web", spec)), "Ok");
}

TEST_F(NetworksTest, BadPortsAreInvalidAndTooManyAreExhausted) {
  NetworkRequest no_host_port;
  no_host_port.ports.push_back({"x", 0, 80, exec::kTcp});
  EXPECT_EQ(Outcome(networks().Setup("web", no_host_port)), "InvalidArgument");
  NetworkRequest no_protocol;
  no_protocol.ports.push_back({"x", 20080, 80, 0});
  EXPECT_EQ(Outcome(networks().Setup("web", no_protocol)), "InvalidArgument");
  NetworkRequest many;
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
  // The same port number of the other protocol is another port.
  NetworkRequest udp;
  udp.ports.push_back({"http", 20080, 80, exec::kUdp});
  EXPECT_EQ(MessageOf(networks().Setup("db", udp)), "Ok");
}

// The executor reports this, because mountd itself sees no socket of the host
// in the sandbox of its unit.
TEST_F(NetworksTest, APortThatASocketOfTheHostHasIsAlreadyExists) {
  executor().PutHostSocket(20080);
  const std::uint32_t before = Free();
  const auto refused = networks().Setup("web", Spec(20080));
  EXPECT_EQ(Outcome(refused), "AlreadyExists");
  EXPECT_EQ(refused.error().sys_errno, EADDRINUSE);
  EXPECT_FALSE(RecordOf("web").has_value());
  EXPECT_TRUE(Existing().empty());
  // The refusal does not keep the port, so another network may ask once the
  // socket is gone.
  EXPECT_EQ(networks().CountFreePorts(20080, 20080), 1U);
  networks().ReapQuarantine();
  EXPECT_EQ(Free(), before);
  EXPECT_EQ(MessageOf(networks().Setup("web", Spec(20081))), "Ok");
}

TEST_F(NetworksTest, APortThatTheCallersProcessKeepsIsMapped) {
  executor().PutHostSocket(20080);
  GivenNetns given;
  given.owner_uid = 1000;
  given.keeper = 0;  // the fake takes any fd
  ASSERT_EQ(MessageOf(networks().Setup("web", Spec(20080), given)), "Ok");
  const exec::NetworkPlan plan = executor().plans().back().body.network;
  EXPECT_EQ(plan.has_keeper, 1U);
  EXPECT_EQ(plan.owner_uid, 1000U);
}

TEST_F(NetworksTest, AnUndeclaredNetworkIsNotFound) {
  NetworkRequest spec;
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
  ASSERT_EQ(core_.boot->networks.ListQuarantine()->size(), 1U);

  const auto next = networks().Setup("db", Spec(20080));
  ASSERT_EQ(MessageOf(next), "Ok");
  EXPECT_EQ(netns::ToString(next->ipv4), "10.0.0.3");

  networks().ReapQuarantine();
  EXPECT_EQ(core_.checks, 2);  // the link is still there, so once more
  EXPECT_EQ(core_.boot->networks.ListQuarantine()->size(), 1U);
  executor().EndLinks();
  networks().ReapQuarantine();
  EXPECT_EQ(core_.checks, 2);
  EXPECT_TRUE(core_.boot->networks.ListQuarantine()->empty());
  EXPECT_EQ(Free(), with_web);  // web's address is free, db's is taken
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
  // mountd deletes the link only, because the name may belong to another
  // namespace by now.
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
  EXPECT_EQ(core_.boot->networks.ListQuarantine()->size(), 1U);
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
  EXPECT_EQ(capacity, 5U);  // a /29 gives 2 to 6
  for (std::uint32_t i = 0; i < capacity; ++i) {
    ASSERT_EQ(MessageOf(networks().Setup("a" + std::to_string(i), Spec())),
              "Ok");
  }
  EXPECT_EQ(Free(), 0U);
  EXPECT_EQ(Outcome(networks().Setup("one-more", Spec())), "ResourceExhausted");
  EXPECT_FALSE(RecordOf("one-more").has_value());
}

TEST_F(NetworksTest, ThatFewAddressesAreLeftIsToldOnce) {
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

TEST_F(NetworksTest, RepairSaysWhatItPutRight) {
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

}  // namespace
}  // namespace mountd
