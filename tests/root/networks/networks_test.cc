// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fstream>

#include "mountd/kernel/nft_command.h"
#include "netns/address/address.h"
#include "tests/root/networks/network_fixture.h"
#include "tests/support/naive.h"
#include "tests/support/net_probe.h"

namespace mountd::testing {
namespace {

using exec::NetworkPlan;
using exec::PlanBody;
using exec::PlanKind;
using exec::Reply;
using exec::ToWire;

TEST_F(Networks, PreparingAgainKeepsElementsAndOperatorsRules) {
  const NetworkPlan plan = Plan("web", 2, 18080);
  ASSERT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, plan)), "");
  ASSERT_TRUE(
      exec::RunNftCommand("add rule inet mountd admin counter").has_value());
  const Inventory made = Inventory::Take();
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
  EXPECT_EQ(Difference(made, Inventory::Take()), "");
  // Another version of the rules replaces only the rules.
  ASSERT_TRUE(exec::RunNftCommand("flush set inet mountd version").has_value());
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
  EXPECT_EQ(Difference(made, Inventory::Take()), "");
  EXPECT_EQ(StateOf(plan).elements_present, 1U);
}

TEST_F(Networks, ForwardingIsOnAndTheNamesDirectoryIsShared) {
  std::string value;
  std::ifstream("/proc/sys/net/ipv4/ip_forward") >> value;
  EXPECT_EQ(value, "1");
  std::ifstream("/proc/sys/net/ipv6/conf/all/forwarding") >> value;
  EXPECT_EQ(value, "1");
  const auto facts = propagation::MakeMountInspector(real_).value()->Facts(
      real_.Stat(-1, "/run/netns")->mount_id);
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->point, "/run/netns");
  EXPECT_NE(facts->peer_group, 0U);
}

TEST_F(Networks, AProcessInsideIsReachedOnItsAddressesAndItsPort) {
  const NetworkPlan plan = Plan("web", 2, 18080);
  ASSERT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, plan)), "");
  const Server server("/run/netns/web", 80, "hello");
  EXPECT_EQ(Ask("10.88.0.2", 80), "hello");
  EXPECT_EQ(Ask("fd88::2", 80), "hello");
  EXPECT_EQ(Ask("127.0.0.1", 18080), "hello");
  EXPECT_EQ(Ask("10.88.0.1", 18080), "hello");
  EXPECT_EQ(Ask("fd88::1", 18080), "hello");
}

TEST_F(Networks, AllocationsReachEachOtherDirectlyAndByPort) {
  ASSERT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, Plan("web", 2, 18080))), "");
  ASSERT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, Plan("db", 3, 18081))), "");
  const Server server("/run/netns/web", 80, "hello");
  EXPECT_EQ(RunInNetns("/run/netns/db",
                       [] { return Ask("10.88.0.2", 80) == "hello" ? 0 : 1; }),
            0);
  EXPECT_EQ(RunInNetns("/run/netns/db",
                       [] { return Ask("fd88::2", 80) == "hello" ? 0 : 1; }),
            0);
  EXPECT_EQ(
      RunInNetns("/run/netns/db",
                 [] { return Ask("10.88.0.1", 18080) == "hello" ? 0 : 1; }),
      0);
  EXPECT_EQ(
      RunInNetns("/run/netns/web",
                 [] { return Ask("10.88.0.1", 18080) == "hello" ? 0 : 1; }),
      0);
}

TEST_F(Networks, AnAddressThatIsNotTheAllocationsOwnIsDropped) {
  ASSERT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, Plan("web", 2, 18080))), "");
  const Server host("/proc/self/ns/net", 7000, "host");
  EXPECT_EQ(RunInNetns("/run/netns/web",
                       [] { return Ask("10.88.0.1", 7000) == "host" ? 0 : 1; }),
            0);
  // The packets leave, and the answers would return by the route of that
  // address if the host accepted the packets.
  ASSERT_TRUE(exec::RunNftCommand(
                  "flush set inet mountd src4; flush set inet mountd src6")
                  .has_value());
  EXPECT_EQ(
      RunInNetns("/run/netns/web",
                 [] { return Ask("10.88.0.1", 7000, 300).empty() ? 0 : 1; }),
      0);
}

TEST_F(Networks, TheSamePlanAgainAnswersTheNetworkThatIsThere) {
  const NetworkPlan plan = Plan("web", 2, 18080);
  const Reply first = Do(PlanKind::kCreateNetwork, plan);
  ASSERT_EQ(ErrorOf(first), "");
  const Inventory once = Inventory::Take();
  const Reply second = Do(PlanKind::kCreateNetwork, plan);
  ASSERT_EQ(ErrorOf(second), "");
  EXPECT_EQ(first.body.network.netns_inode, second.body.network.netns_inode);
  EXPECT_EQ(first.body.network.host_ifindex, second.body.network.host_ifindex);
  EXPECT_EQ(Difference(once, Inventory::Take()), "");
}

TEST_F(Networks, DeleteLeavesNothingAndSucceedsAgain) {
  NetworkPlan plan = Plan("web", 2, 18080);
  const Reply reply = Do(PlanKind::kCreateNetwork, plan);
  ASSERT_EQ(ErrorOf(reply), "");
  plan.netns_inode = reply.body.network.netns_inode;
  ASSERT_EQ(ErrorOf(Do(PlanKind::kDeleteNetwork, plan)), "");
  EXPECT_EQ(StateOf(plan).netns_inode, 0U);
  EXPECT_EQ(StateOf(plan).elements_present, 0U);
  EXPECT_EQ(DifferenceWithin(before_, 20), "");
  EXPECT_EQ(StateOf(plan).host_ifindex, 0U);
  EXPECT_EQ(ErrorOf(Do(PlanKind::kDeleteNetwork, plan)), "");
}

TEST_F(Networks, ASecondDeleteTakesTheLinkOfANamespaceThatIsHeld) {
  const NetworkPlan plan = Plan("web", 2, 18080);
  ASSERT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, plan)), "");
  {
    const Server holder("/run/netns/web", 80, "hello");
    ASSERT_EQ(ErrorOf(Do(PlanKind::kDeleteNetwork, plan)), "");
    EXPECT_NE(StateOf(plan).host_ifindex, 0U);
    EXPECT_EQ(Ask("127.0.0.1", 18080, 300), "");
    EXPECT_EQ(ErrorOf(Do(PlanKind::kDeleteNetwork, plan)), "");
    EXPECT_EQ(StateOf(plan).host_ifindex, 0U);
  }
  EXPECT_EQ(DifferenceWithin(before_, 20), "");
}

// Undoes a port map by the port alone, as a naive daemon does, whoever has it.
void NaiveDeletePort() {
  ASSERT_TRUE(
      exec::RunNftCommand("delete element inet mountd pm4 { tcp . 18080 }; "
                          "delete element inet mountd pm6 { tcp . 18080 }")
          .has_value());
}

TEST_F(Networks, APortThatIsTakenIsNamedAndNothingIsMade) {
  const NetworkPlan web = Plan("web", 2, 18080);
  ASSERT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, web)), "");
  const Inventory once = Inventory::Take();
  NetworkPlan other = Plan("db", 3, 18081);
  other.port_count = 2;
  other.ports[1] = {18080, 81, exec::kTcp, 0};
  const Reply reply = Do(PlanKind::kCreateNetwork, other);
  EXPECT_EQ(CodeOf(reply), "AlreadyExists");
  EXPECT_NE(ErrorOf(reply).find("18080"), std::string::npos) << ErrorOf(reply);
  EXPECT_EQ(DifferenceWithin(once, 20), "");
  // The deletion after the refusal does not remove the other network's port.
  EXPECT_EQ(ErrorOf(Do(PlanKind::kDeleteNetwork, other)), "");
  EXPECT_EQ(StateOf(web).elements_present, 1U);
  other.ports[1].host_port = 18082;
  EXPECT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, other)), "");
  NaiveDeletePort();
  EXPECT_NAIVE(StateOf(web).elements_present == 0U);
}

TEST_F(Networks, DeleteWorksFromAnyPartialState) {
  const NetworkPlan plan = Plan("web", 2, 18080);
  // The name is there without a namespace.
  ASSERT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, plan)), "");
  Unmount("/run/netns/web");
  EXPECT_EQ(ErrorOf(Do(PlanKind::kDeleteNetwork, plan)), "");
  EXPECT_EQ(DifferenceWithin(before_, 20), "");
  // Some elements are missing.
  ASSERT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, plan)), "");
  ASSERT_TRUE(
      exec::RunNftCommand(
          "delete element inet mountd pm4 { tcp . 18080 : 10.88.0.2 . 80 }")
          .has_value());
  EXPECT_EQ(StateOf(plan).elements_present, 0U);
  EXPECT_EQ(ErrorOf(Do(PlanKind::kDeleteNetwork, plan)), "");
  EXPECT_EQ(DifferenceWithin(before_, 20), "");
  // There is no table at all.
  ASSERT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, plan)), "");
  ASSERT_TRUE(exec::RunNftCommand("flush ruleset").has_value());
  EXPECT_EQ(ErrorOf(Do(PlanKind::kDeleteNetwork, plan)), "");
  EXPECT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
  EXPECT_EQ(DifferenceWithin(before_, 20), "");
}

TEST_F(Networks, ALateDeleteDoesNotTouchTheAddressesNextUser) {
  const NetworkPlan first = Plan("web", 2, 18080);
  ASSERT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, first)), "");
  ASSERT_EQ(ErrorOf(Do(PlanKind::kDeleteNetwork, first)), "");
  ASSERT_EQ(DifferenceWithin(before_, 20), "");
  const NetworkPlan next = Plan("db", 2, 18080);
  ASSERT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, next)), "");
  const Inventory made = Inventory::Take();
  EXPECT_EQ(StateOf(first).host_ifindex, 0U);
  EXPECT_EQ(ErrorOf(Do(PlanKind::kDeleteNetwork, first)), "");
  EXPECT_EQ(Difference(made, Inventory::Take()), "");
  EXPECT_EQ(StateOf(next).elements_present, 1U);
  NaiveDeletePort();
  EXPECT_NAIVE(StateOf(next).elements_present == 0U);
}

TEST_F(Networks, AnAddressWhoseLinkIsLeftIsBusy) {
  const NetworkPlan plan = Plan("web", 2, 18080);
  ASSERT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, plan)), "");
  EXPECT_EQ(CodeOf(Do(PlanKind::kCreateNetwork, Plan("db", 2, 18081))), "Busy");
}

TEST_F(Networks, AllPortsOfAPlanAreMapped) {
  NetworkPlan plan = Plan("web", 2, 20000);
  plan.port_count = exec::kMaxPorts;
  for (std::size_t i = 0; i < exec::kMaxPorts; ++i) {
    plan.ports.at(i) = {static_cast<std::uint16_t>(20000 + i),
                        static_cast<std::uint16_t>(80 + i),
                        exec::kTcp | exec::kUdp, 0};
  }
  ASSERT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, plan)), "");
  EXPECT_EQ(StateOf(plan).elements_present, 1U);
  NetworkPlan other = plan;
  other.allocation = ToWire("db");
  other.ipv4 = {10, 88, 0, 3};
  EXPECT_EQ(CodeOf(Do(PlanKind::kCreateNetwork, other)), "AlreadyExists");
  ASSERT_EQ(ErrorOf(Do(PlanKind::kDeleteNetwork, plan)), "");
  EXPECT_EQ(DifferenceWithin(before_, 20), "");
}

TEST_F(Networks, ANetworkWithoutIpv6HasNone) {
  NetworkPlan plan = Plan("web", 2, 18080);
  plan.ipv6 = {};
  ASSERT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, plan)), "");
  const Server server("/run/netns/web", 80, "hello");
  EXPECT_EQ(Ask("127.0.0.1", 18080), "hello");
  EXPECT_EQ(Ask("fd88::2", 80, 300), "");
}

}  // namespace
}  // namespace mountd::testing
