// SPDX-License-Identifier: LGPL-2.1-or-later
// Allocations' networks: namespaces, links, addresses and port maps.
#include <algorithm>

#include "netns/address/address.h"
#include "tests/contract/machine.h"
#include "tests/support/eventually.h"

namespace mountd::testing {
namespace {

using exec::NetworkPlan;
using exec::NetworkState;

class NetworksContract : public ExecutorContract {
 protected:
  void SetUp() override {
    ExecutorContract::SetUp();
    if (!IsSkipped() && !HasFatalFailure()) {
      ASSERT_THAT(executor().PrepareNetworks(false), IsOk());
    }
  }

  static NetworkPlan Plan(const std::string& allocation, std::uint8_t host,
                          std::uint16_t port) {
    NetworkPlan plan;
    plan.allocation = exec::ToWire(allocation);
    plan.network = exec::ToWire("default");
    plan.interface = {"eth0"};
    plan.flags = exec::kDefaultRoute;
    plan.ipv4 = {10, 88, 0, host};
    plan.ipv6 = netns::ParseIpv6("fd88::").value();
    plan.ipv6.back() = host;
    plan.port_count = 1;
    plan.ports[0] = {port, 80, exec::kTcp, 0};
    return plan;
  }
  Result<NetworkState> Create(const NetworkPlan& plan) {
    return executor().CreateNetwork(plan, -1, -1);
  }
  // Returns the state of the network; of none if that fails, which is a
  // failure.
  NetworkState StateOf(const NetworkPlan& plan) {
    const Result<NetworkState> state = executor().InspectNetwork(plan);
    EXPECT_THAT(state, IsOk());
    return state ? *state : NetworkState{};
  }
  void ExpectNone(const NetworkPlan& plan) {
    // A link may end after its namespace.
    EXPECT_TRUE(Eventually([&] { return StateOf(plan).host_ifindex == 0; }));
    const NetworkState state = StateOf(plan);
    EXPECT_EQ(state.netns_inode, 0U);
    EXPECT_EQ(state.elements_present, 0U);
  }
};

TEST_F(NetworksContract, PreparingAgainChangesNothing) {
  const auto before = machine().Made();
  EXPECT_THAT(executor().PrepareNetworks(false), IsOk());
  EXPECT_THAT(executor().PrepareNetworks(true), IsOk());
  ExpectUnchanged(before);
}

TEST_F(NetworksContract, TheSamePlanAgainAnswersTheSameNetwork) {
  const NetworkPlan plan = Plan("web", 2, 18080);
  ASSERT_OK_AND_ASSIGN(const NetworkState first, Create(plan));
  EXPECT_NE(first.netns_inode, 0U);
  EXPECT_NE(first.host_ifindex, 0U);
  const auto before = machine().Made();
  ASSERT_OK_AND_ASSIGN(const NetworkState second, Create(plan));
  EXPECT_EQ(second.netns_inode, first.netns_inode);
  EXPECT_EQ(second.host_ifindex, first.host_ifindex);
  ExpectUnchanged(before);
}

TEST_F(NetworksContract, ReadBackIsWhatCreateAnswered) {
  const NetworkPlan plan = Plan("web", 2, 18080);
  ExpectNone(plan);
  ASSERT_OK_AND_ASSIGN(const NetworkState made, Create(plan));
  const NetworkState seen = StateOf(plan);
  EXPECT_EQ(seen.netns_inode, made.netns_inode);
  EXPECT_EQ(seen.host_ifindex, made.host_ifindex);
  EXPECT_EQ(seen.elements_present, 1U);
}

TEST_F(NetworksContract, APortThatIsMappedIsRefusedAndNothingIsMade) {
  ASSERT_THAT(Create(Plan("web", 2, 18080)), IsOk());
  const NetworkPlan other = Plan("db", 3, 18080);
  EXPECT_THAT(Create(other), IsErr(Code::kAlreadyExists));
  ExpectNone(other);
  EXPECT_EQ(StateOf(Plan("web", 2, 18080)).elements_present, 1U);
  // The deletion after a refusal leaves the other network its port.
  EXPECT_THAT(executor().DeleteNetwork(other), IsOk());
  EXPECT_EQ(StateOf(Plan("web", 2, 18080)).elements_present, 1U);
  EXPECT_THAT(Create(Plan("db", 3, 18081)), IsOk());
}

TEST_F(NetworksContract, APortOfTheHostIsRefusedAndNothingIsMade) {
  const Machine::Held socket = machine().Listen(18080);
  const NetworkPlan plan = Plan("web", 2, 18080);
  EXPECT_THAT(executor().CheckHostPorts(plan, -1),
              IsErrOf(Code::kAlreadyExists, "18080"));
  EXPECT_THAT(Create(plan), IsErrOf(Code::kAlreadyExists, "18080"));
  ExpectNone(plan);
  EXPECT_THAT(executor().CheckHostPorts(Plan("web", 2, 18081), -1), IsOk());
}

TEST_F(NetworksContract, AProtocolThatIsTakenIsLeftOutIfThePlanSaysSo) {
  NetworkPlan udp = Plan("db", 3, 18080);
  udp.ports[0].protocols = exec::kUdp;
  ASSERT_THAT(Create(udp), IsOk());
  NetworkPlan plan = Plan("web", 2, 18080);
  plan.port_count = 2;
  plan.ports[0].protocols = exec::kTcp | exec::kUdp;
  plan.ports[0].if_free = exec::kUdp;
  plan.ports[1] = plan.ports[0];
  plan.ports[1].host_port = 18081;
  for (int again = 0; again < 2; ++again) {
    ASSERT_OK_AND_ASSIGN(const NetworkState made, Create(plan));
    EXPECT_EQ(made.unmapped[0], exec::kUdp);
    EXPECT_EQ(made.unmapped[1], 0U);
  }
  plan.ports[0].protocols = exec::kTcp;
  plan.ports[0].if_free = 0;
  EXPECT_EQ(StateOf(plan).elements_present, 1U);
  EXPECT_EQ(StateOf(udp).elements_present, 1U);
  EXPECT_THAT(executor().DeleteNetwork(plan), IsOk());
  EXPECT_EQ(StateOf(udp).elements_present, 1U);
}

TEST_F(NetworksContract, AnAddressThatIsTakenIsBusyAndNothingIsMade) {
  const NetworkPlan web = Plan("web", 2, 18080);
  ASSERT_OK_AND_ASSIGN(const NetworkState made, Create(web));
  const NetworkPlan other = Plan("db", 2, 18081);
  EXPECT_THAT(Create(other), IsErr(Code::kBusy));
  EXPECT_EQ(StateOf(other).netns_inode, 0U);
  EXPECT_EQ(StateOf(web).netns_inode, made.netns_inode);
  EXPECT_EQ(StateOf(web).elements_present, 1U);
}

TEST_F(NetworksContract, ASecondNamespaceOfAnAllocationIsRefused) {
  ASSERT_THAT(Create(Plan("web", 2, 18080)), IsOk());
  EXPECT_THAT(Create(Plan("web", 3, 18081)), IsErr(Code::kFailedPrecondition));
  EXPECT_EQ(StateOf(Plan("web", 3, 18081)).host_ifindex, 0U);
}

TEST_F(NetworksContract, DeleteLeavesNothingAndSucceedsAgain) {
  NetworkPlan plan = Plan("web", 2, 18080);
  ASSERT_OK_AND_ASSIGN(const NetworkState made, Create(plan));
  plan.netns_inode = made.netns_inode;
  ASSERT_THAT(executor().DeleteNetwork(plan), IsOk());
  ExpectNone(plan);
  EXPECT_THAT(executor().DeleteNetwork(plan), IsOk());
  plan.netns_inode = 0;
  EXPECT_THAT(Create(plan), IsOk());
}

TEST_F(NetworksContract, DeleteLeavesAnotherNamespaceOfTheName) {
  NetworkPlan plan = Plan("web", 2, 18080);
  ASSERT_OK_AND_ASSIGN(const NetworkState made, Create(plan));
  plan.netns_inode = made.netns_inode + 1;
  EXPECT_THAT(executor().DeleteNetwork(plan), IsErr(Code::kFailedPrecondition));
  EXPECT_EQ(StateOf(plan).netns_inode, made.netns_inode);
}

TEST_F(NetworksContract, ARepairOfAWholeNetworkRepairsNothing) {
  NetworkPlan plan = Plan("web", 2, 18080);
  ASSERT_OK_AND_ASSIGN(const NetworkState made, Create(plan));
  plan.netns_inode = made.netns_inode;
  const auto before = machine().Made();
  ASSERT_OK_AND_ASSIGN(const NetworkState repaired,
                       executor().RepairNetwork(plan));
  EXPECT_EQ(repaired.repaired, 0U);
  EXPECT_EQ(repaired.netns_inode, made.netns_inode);
  ExpectUnchanged(before);
}

TEST_F(NetworksContract, ARepairNeedsTheNamespace) {
  NetworkPlan plan = Plan("web", 2, 18080);
  ASSERT_OK_AND_ASSIGN(const NetworkState made, Create(plan));
  plan.netns_inode = made.netns_inode;
  machine().LoseNamespace("web");
  EXPECT_THAT(executor().RepairNetwork(plan), IsErr(Code::kFailedPrecondition));
  EXPECT_THAT(executor().DeleteNetwork(plan), IsOk());
  ExpectNone(plan);
}

TEST_F(NetworksContract, PortsAreReplacedAllOrNone) {
  NetworkPlan old = Plan("web", 2, 18080);
  ASSERT_OK_AND_ASSIGN(const NetworkState made, Create(old));
  ASSERT_THAT(Create(Plan("db", 3, 18082)), IsOk());
  old.netns_inode = made.netns_inode;
  old.origin = exec::NamespaceOrigin::kExisting;
  exec::PortsPlan plan;
  plan.network = old;
  plan.network.ports[0].host_port = 18081;
  plan.old_count = old.port_count;
  plan.old_ports = old.ports;
  for (int again = 0; again < 2; ++again) {
    ASSERT_THAT(executor().UpdatePorts(plan), IsOk());
    EXPECT_EQ(StateOf(plan.network).elements_present, 1U);
    EXPECT_EQ(StateOf(old).elements_present, 0U);
  }
  exec::PortsPlan taken = plan;
  taken.network.ports[0].host_port = 18082;
  taken.old_ports = plan.network.ports;
  const auto before = machine().Made();
  EXPECT_THAT(executor().UpdatePorts(taken), IsErr(Code::kAlreadyExists));
  ExpectUnchanged(before);
  EXPECT_THAT(Create(Plan("c", 4, 18080)), IsOk()) << "the old port is free";
  plan.network.netns_inode++;
  EXPECT_THAT(executor().UpdatePorts(plan), IsErr(Code::kFailedPrecondition));
}

TEST_F(NetworksContract, OnlyTheRecordedNamespaceIsOpened) {
  NetworkPlan plan = Plan("web", 2, 18080);
  ASSERT_OK_AND_ASSIGN(const NetworkState made, Create(plan));
  NetworkPlan open;
  open.allocation = exec::ToWire("web");
  open.origin = exec::NamespaceOrigin::kExisting;
  open.netns_inode = made.netns_inode;
  const auto before = machine().Made();
  ASSERT_OK_AND_ASSIGN(const exec::HandedOutFd opened,
                       executor().OpenNamespace(open));
  EXPECT_TRUE(opened.fd.valid());
  // Its holders are found by the mount alone, which only the host has.
  EXPECT_EQ(opened.mount.reusable_id, 0U);
  EXPECT_EQ(opened.mount.device, 0U);
  ExpectUnchanged(before);
  open.netns_inode = made.netns_inode + 1;
  EXPECT_THAT(executor().OpenNamespace(open), IsErr(Code::kFailedPrecondition));
  open.netns_inode = made.netns_inode;
  machine().LoseNamespace("web");
  EXPECT_THAT(executor().OpenNamespace(open), IsErr(Code::kFailedPrecondition));
}

TEST_F(NetworksContract, AreListedWithTheirPorts) {
  ASSERT_OK_AND_ASSIGN(const NetworkState made, Create(Plan("web", 2, 18080)));
  ASSERT_OK_AND_ASSIGN(const std::vector<exec::FoundNetwork> found,
                       executor().ListNetworks());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(exec::Text(found[0].allocation), "web");
  EXPECT_EQ(found[0].netns_inode, made.netns_inode);
  EXPECT_EQ(netns::ToString(found[0].ipv4), "10.88.0.2");
  ASSERT_EQ(found[0].port_count, 1U);
  EXPECT_EQ(found[0].ports[0].host_port, 18080U);
  EXPECT_EQ(found[0].ports[0].container_port, 80U);
}

}  // namespace
}  // namespace mountd::testing
