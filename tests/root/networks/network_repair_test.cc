// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "tests/root/networks/network_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/net_probe.h"

// RepairNetwork restores what other programs remove from a network.
namespace mountd::testing {
namespace {

using exec::NetworkPlan;
using exec::PlanKind;

// Returns the names of the bits.
std::string Text(std::uint32_t repaired) {
  std::string text;
  const auto add = [&](std::uint32_t bit, const char* name) {
    text += (repaired & bit) == 0
                ? ""
                : (text.empty() ? "" : " ") + std::string(name);
  };
  add(exec::kRepairedLink, "link");
  add(exec::kRepairedHostEnd, "host");
  add(exec::kRepairedInside, "inside");
  add(exec::kRepairedElements, "elements");
  return text;
}

class NetworkRepair : public Networks {
 protected:
  void SetUp() override {
    Networks::SetUp();
    if (!IsSkipped()) {
      plan_.netns_inode = Create(plan_).netns_inode;
      made_ = Inventory::Take();
    }
  }

  // Returns what was repaired, or the error.
  std::string Repair() {
    const exec::Reply reply = Do(PlanKind::kRepairNetwork, plan_);
    return reply.code == 0 ? Text(reply.body.network.repaired) : ErrorOf(reply);
  }
  void PrepareAnew() {
    EXPECT_EQ(ErrorOf(Call(
                  PlanKind::kPrepareNetworks,
                  [](exec::PlanBody* body) { body->prepare_networks = {1}; })),
              "");
  }
  void ExpectTraffic() {
    const Server server(kWebNetns, 80, "hello");
    const Server host("/proc/self/ns/net", 7000, "host");
    EXPECT_EQ(Ask("10.88.0.2", 80), "hello");
    EXPECT_EQ(Ask("fd88::2", 80), "hello");
    EXPECT_EQ(Ask("127.0.0.1", 18080), "hello");
    EXPECT_EQ(Ask("fd88::1", 18080), "hello");
    EXPECT_EQ(AskFrom(kWebNetns, "10.88.0.1", 7000), "host");
    EXPECT_EQ(AskFrom(kWebNetns, "fd88::1", 7000), "host");
  }
  void ExpectRepaired(const std::string& what) {
    EXPECT_EQ(Repair(), what);
    const exec::Reply again = Do(PlanKind::kRepairNetwork, plan_);
    EXPECT_EQ(ErrorOf(again), "");
    // The second answer says what is there, and that nothing needed a repair.
    const exec::NetworkState told = again.body.network;
    const exec::NetworkState state = StateOf(plan_);
    EXPECT_EQ(Text(told.repaired), "") << "a second time";
    EXPECT_EQ(told.netns_inode, state.netns_inode);
    EXPECT_EQ(told.host_ifindex, state.host_ifindex);
    EXPECT_EQ(told.elements_present, state.elements_present);
    EXPECT_EQ(state.elements_present, 1U);
    EXPECT_NE(state.host_ifindex, 0U);
    ExpectTraffic();
    EXPECT_EQ(DifferenceWithin(made_, 20, Counted::kAllButConnections), "");
  }
  // Runs the command, with "@" replaced by the host end.
  void Break(std::string command) {
    for (std::size_t at = 0; (at = command.find('@')) != std::string::npos;) {
      command.replace(at, 1, LinkOf(plan_));
    }
    Shell(command);
  }

  NetworkPlan plan_ = Plan("web", 2, 18080);
  Inventory made_;
};

struct Breakage {
  const char* name;
  const char* command;
  const char* repaired;
};

class NetworkRepairOf : public NetworkRepair,
                        public ::testing::WithParamInterface<Breakage> {};

TEST_P(NetworkRepairOf, SaysWhatItWasAndPacketsPassAgain) {
  Break(GetParam().command);
  ExpectRepaired(GetParam().repaired);
  Delete(plan_);
  EXPECT_EQ(DifferenceWithin(before_, 20), "");
}

constexpr Breakage kBreakages[] = {
    {"TheHostLink", "ip link del @", "link"},
    {"TheLinkFromInside", "ip -n web link del eth0", "link"},
    {"ALinkThatLeadsElsewhere",
     "ip link del @ && ip link add @ type veth peer name other", "link"},
    {"AllocationsEndMovedAway",
     "ip netns add other && ip -n web link set eth0 netns other && "
     "ip netns del other && "
     "while ip link show @ >/dev/null 2>&1; do sleep 0.01; done",
     "link"},
    {"TheHostLinksName", "ip link set @ down && ip link set @ name other0",
     "host"},
    {"TheHostLinksNameAndAnotherHasIt",
     "ip link set @ down && ip link set @ name other0 && "
     "ip link add @ type veth peer name other1",
     "host"},
    {"TheHostLinksState", "ip link set @ down", "host"},
    {"TheHostLinkDownAndUp", "ip link set @ down && ip link set @ up", "host"},
    {"TheHostLinksMac", "ip link set @ address 02:00:00:00:00:99", "host"},
    {"TheHostLinksLocalnetRouting",
     "echo 0 >/proc/sys/net/ipv4/conf/@/route_localnet", "host"},
    {"TheHostRoute", "ip route del 10.88.0.2", "host"},
    {"AHostRouteElsewhere", "ip route replace 10.88.0.2 dev lo", "host"},
    {"ABlackHole", "ip route replace blackhole 10.88.0.2", "host"},
    {"TheIpv6Route", "ip -6 route del fd88::2", "host"},
    {"TheNeighbour", "ip neigh del 10.88.0.2 dev @", "host"},
    {"TheIpv6Neighbour", "ip neigh del fd88::2 dev @", "host"},
    {"AnotherMac",
     "ip neigh replace 10.88.0.2 lladdr 02:00:00:00:00:99 nud permanent dev @",
     "host"},
    {"AnotherIpv6Mac",
     "ip neigh replace fd88::2 lladdr 02:00:00:00:00:99 nud permanent dev @",
     "host"},
    {"ANeighbourThatExpires",
     "ip neigh replace 10.88.0.2 lladdr 02:4d:0a:58:00:02 nud reachable dev @",
     "host"},
    {"TheAddressInside", "ip -n web addr del 10.88.0.2/32 dev eth0", "inside"},
    {"TheIpv6AddressInside", "ip -n web addr del fd88::2/128 dev eth0",
     "inside"},
    {"TheDefaultRouteInside", "ip -n web route del default", "inside"},
    {"TheIpv6DefaultRouteInside", "ip -n web -6 route del default", "inside"},
    {"TheGatewaysNeighbourInside", "ip -n web neigh del 169.254.1.1 dev eth0",
     "inside"},
    {"TheMacInside", "ip -n web link set eth0 address 02:00:00:00:00:99",
     "inside"},
    {"TheStateInside", "ip -n web link set eth0 down", "inside"},
    {"TheElements",
     "nft 'delete element inet mountd pm4 { tcp . 18080 }; "
     "delete element inet mountd pm6 { udp . 18080 }'",
     "elements"},
    {"WhatLetsItsPacketsPass",
     "nft 'flush set inet mountd src4; flush set inet mountd src6; "
     "flush set inet mountd open'",
     "elements"},
    {"AllTogether",
     "ip link set @ down && ip -n web addr flush dev eth0 && "
     "nft flush map inet mountd pm4",
     "host inside elements"},
    {"TheLinkAndElements", "ip link del @ && nft flush map inet mountd pm6",
     "link elements"},
};

INSTANTIATE_TEST_SUITE_P(Network, NetworkRepairOf,
                         ::testing::ValuesIn(kBreakages), [](const auto& each) {
                           return std::string(each.param.name);
                         });

TEST_F(NetworkRepair, AfterAFlushOfTheWholeRuleset) {
  Break("nft flush ruleset");
  PrepareAnew();
  ExpectRepaired("elements");
}

TEST_F(NetworkRepair, AfterOurTableWasDeleted) {
  Break("nft delete table inet mountd");
  // Without the table no packet of an allocation is checked, so Repair alone is
  // refused.
  EXPECT_NE(Repair(), "");
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
  ExpectRepaired("elements");
}

TEST_F(NetworkRepair, AfterAFlushOfOneChain) {
  for (const char* chain :
       {"guard", "portmap", "nat_pre", "nat_out", "nat_post", "forward"}) {
    SCOPED_TRACE(chain);
    Break(std::string("nft flush chain inet mountd ") + chain);
    // The table still has its version, so the executor takes it as correct
    // until it is made again.
    EXPECT_NE(Difference(made_, Inventory::Take()), "");
    ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
    EXPECT_NE(Difference(made_, Inventory::Take()), "");
    PrepareAnew();
    EXPECT_EQ(Difference(made_, Inventory::Take()), "");
    EXPECT_EQ(Repair(), "");
  }
  ExpectTraffic();
}

TEST_F(NetworkRepair, AfterTheHostsAddressWasTakenAway) {
  // The routes that prefer the address go with it.
  Break("ip addr del 10.88.0.1/32 dev lo && ip addr del fd88::1/128 dev lo");
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
  ExpectRepaired("host");
}

TEST_F(NetworkRepair, OperatorsRulesStay) {
  Break("nft add rule inet mountd admin tcp dport { 1, 2 } counter drop");
  made_ = Inventory::Take();
  PrepareAnew();
  EXPECT_EQ(Difference(made_, Inventory::Take()), "");
  Break("nft flush chain inet mountd forward");
  PrepareAnew();
  EXPECT_EQ(Difference(made_, Inventory::Take()), "");
  ExpectTraffic();
}

TEST_F(NetworkRepair, IptablesLeavesOurTableAlone) {
  if (std::system("command -v iptables-nft >/dev/null") != 0) {
    GTEST_SKIP() << "there is no iptables-nft (package iptables)";
  }
  Break("iptables-nft -F && iptables-nft -t nat -F && iptables-nft -X");
  PrepareAnew();
  EXPECT_EQ(Repair(), "");
  ExpectTraffic();
}

TEST_F(NetworkRepair, ANamespaceThatLostItsNameIsLost) {
  ASSERT_EQ(::umount2(kWebNetns, MNT_DETACH), 0);
  const exec::Reply reply = Do(PlanKind::kRepairNetwork, plan_);
  EXPECT_EQ(CodeOf(reply), "FailedPrecondition") << ErrorOf(reply);
  ASSERT_EQ(::unlink(kWebNetns), 0);
  EXPECT_EQ(CodeOf(Do(PlanKind::kRepairNetwork, plan_)), "FailedPrecondition");
  Delete(plan_);
  EXPECT_EQ(DifferenceWithin(before_, 20), "");
}

TEST_F(NetworkRepair, AnotherNamespaceAtTheNameIsLeftAlone) {
  // The kernel would give the inode of a namespace that has ended to the next
  // one, so the other namespace is made before this one ends.
  Shell("ip netns add other");
  ASSERT_EQ(::umount2(kWebNetns, MNT_DETACH), 0);
  // The link disappears with the namespace, which has lost its name.
  ASSERT_TRUE(Eventually([this] { return StateOf(plan_).host_ifindex == 0; }));
  Shell("mount --bind /run/netns/other /run/netns/web");
  const Inventory before = Inventory::Take();
  EXPECT_EQ(CodeOf(Do(PlanKind::kRepairNetwork, plan_)), "FailedPrecondition");
  plan_.netns_inode = StateOf(plan_).netns_inode;
  EXPECT_EQ(CodeOf(Do(PlanKind::kRepairNetwork, plan_)), "FailedPrecondition");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
}

TEST_F(NetworkRepair, ANamespaceThatWasNotRecordedIsNotRepaired) {
  plan_.netns_inode = 0;
  EXPECT_EQ(CodeOf(Do(PlanKind::kRepairNetwork, plan_)), "FailedPrecondition");
}

TEST_F(NetworkRepair, AnAddressThatIsAnothersByNowIsLeftToIt) {
  Break("ip link set @ alias db && ip route del 10.88.0.2");
  const Inventory before = Inventory::Take();
  EXPECT_EQ(CodeOf(Do(PlanKind::kRepairNetwork, plan_)), "FailedPrecondition");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
}

// Nothing shows that the executor made the link.
TEST_F(NetworkRepair, ARenamedLinkOfNobodysIsLeftAlone) {
  Break("ip link set @ down && ip link set @ name other0 alias db");
  const Inventory before = Inventory::Take();
  EXPECT_EQ(CodeOf(Do(PlanKind::kRepairNetwork, plan_)), "AlreadyExists");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
}

TEST_F(NetworkRepair, APortThatIsAnothersByNowIsLeftToIt) {
  Break("nft delete element inet mountd pm4 '{ tcp . 18080 }'");
  Break("nft add element inet mountd pm4 '{ tcp . 18080 : 10.88.0.9 . 80 }'");
  const exec::Reply reply = Do(PlanKind::kRepairNetwork, plan_);
  EXPECT_EQ(CodeOf(reply), "AlreadyExists");
  EXPECT_NE(ErrorOf(reply).find("18080"), std::string::npos) << ErrorOf(reply);
}

TEST_F(NetworkRepair, TheInterfaceOfAnothersInsideIsNotTakenAway) {
  Break("ip link del @ && ip -n web link add eth0 type veth peer name other");
  EXPECT_EQ(CodeOf(Do(PlanKind::kRepairNetwork, plan_)), "AlreadyExists");
  Break("ip -n web link show other >/dev/null");
  Break("ip -n web link del eth0");
  ExpectRepaired("link");
}

// The kernel would send duplicate address detection and solicitations for a
// link-local address, and the guard passes no packet from it.
TEST_F(NetworkRepair, OneThatWasCutOffBeforeItsModesWereSetGetsThem) {
  Break(
      "ip link del @ && ip link add @ address 02:4d:00:00:00:01 type veth "
      "peer name eth0 address 02:4d:0a:58:00:02 netns web");
  ExpectRepaired("host inside");
  Break("! ip -n web addr show dev eth0 | grep -q fe80");
}

// Root inside the namespace may have added routes and addresses.
TEST_F(NetworkRepair, WhatWasAddedInsideStays) {
  Break("ip -n web addr add 10.1.2.3/32 dev eth0");
  Break(
      "ip -n web route replace default via 169.254.1.1 dev eth0 onlink "
      "mtu 1300");
  EXPECT_EQ(Repair(), "");
  Break("ip -n web addr del fd88::2/128 dev eth0");
  EXPECT_EQ(Repair(), "inside");
  Break("ip -n web route show default | grep -q 'mtu 1300'");
  Break("ip -n web addr show dev eth0 | grep -q 10.1.2.3");
}

TEST_F(NetworkRepair, OfANamespaceAloneIsOfItsNameAlone) {
  NetworkPlan alone;
  alone.allocation = exec::ToWire("alone");
  alone.netns_inode = Create(alone).netns_inode;
  const exec::Reply reply = Do(PlanKind::kRepairNetwork, alone);
  EXPECT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.network.repaired, 0U);
  EXPECT_EQ(reply.body.network.netns_inode, alone.netns_inode);
}

TEST_F(NetworkRepair, OfASecondNetworkLeavesTheFirst) {
  NetworkConfig back;
  back.ipv4 = {netns::ParseIpv4Range("10.99.0.0/16").value()};
  config_.networks["back"] = back;
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
  NetworkPlan second = Plan("web", 3, 18081);
  second.network = exec::ToWire("back");
  second.ipv4 = {10, 99, 0, 2};
  second.ipv6 = {};
  second.interface = {"eth1"};
  second.flags = 0;
  second.origin = exec::NamespaceOrigin::kExisting;
  second.netns_inode = plan_.netns_inode;
  Create(second);
  made_ = Inventory::Take();
  Shell("ip link del " + LinkOf(second));
  EXPECT_EQ(Repair(), "");
  const exec::Reply reply = Do(PlanKind::kRepairNetwork, second);
  EXPECT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(Text(reply.body.network.repaired), "link");
  ExpectTraffic();
  EXPECT_EQ(DifferenceWithin(made_, 20, Counted::kAllButConnections), "");
}

// ---- A repair without work sends no notification ----

class NetworkQuietRepair : public NetworkRepair {
 protected:
  void SetUp() override {
    NetworkRepair::SetUp();
    if (IsSkipped()) {
      return;
    }
    Listen(real_.OpenNetlink(NETLINK_ROUTE), kRouteGroups);
    Listen(real_.OpenNetlink(NETLINK_NETFILTER), {NFNLGRP_NFTABLES});
    const UniqueFd home(::open(kWebNetns, O_RDONLY | O_CLOEXEC));
    Listen(real_.OpenNetlinkIn(home.get(), NETLINK_ROUTE), kRouteGroups);
  }

  void Listen(exec::Sys<UniqueFd> socket, const std::vector<unsigned>& groups) {
    ASSERT_TRUE(socket.has_value());
    for (const unsigned group : groups) {
      ASSERT_TRUE(real_.Subscribe(socket->get(), group).has_value());
    }
    sockets_.push_back(std::move(socket).value());
  }
  // Returns how many messages came since the last call.
  int Heard() const {
    std::array<char, 65536> buffer{};
    int heard = 0;
    for (const UniqueFd& socket : sockets_) {
      while (::recv(socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT) >=
                 0 ||
             errno == ENOBUFS) {
        ++heard;
      }
    }
    return heard;
  }

  const std::vector<unsigned> kRouteGroups = {
      RTNLGRP_LINK,        RTNLGRP_NEIGH,       RTNLGRP_IPV4_IFADDR,
      RTNLGRP_IPV4_ROUTE,  RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV6_ROUTE,
      RTNLGRP_IPV4_NETCONF};
  std::vector<UniqueFd> sockets_;
};

TEST_F(NetworkQuietRepair, OfANetworkThatIsRightMakesNoNotification) {
  // The link's own notifications may come late; those of Repair would come each
  // time.
  EXPECT_TRUE(Eventually([this] {
    Heard();
    EXPECT_EQ(Repair(), "");
    return Heard() == 0;
  }));
}

TEST_F(NetworkQuietRepair, OneThatDoesSomethingIsHeard) {
  Break("ip route del 10.88.0.2");
  EXPECT_TRUE(Eventually([this] { return Heard() == 0; }));
  EXPECT_EQ(Repair(), "host");
  EXPECT_NE(Heard(), 0);
}

}  // namespace
}  // namespace mountd::testing
