// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Attacks by plans on networks, from a compromised mountd. Each attack fails
// against the executor, and succeeds in the same test against a naive executor,
// which shows that the test could fail.
#include <net/if.h>

#include <algorithm>
#include <string_view>

#include "mountd/base/memory_file.h"
#include "mountd/kernel/nft_command.h"
#include "tests/root/networks/network_fixture.h"
#include "tests/support/naive.h"
#include "tests/support/net_probe.h"

namespace mountd::testing {
namespace {

using exec::NetworkPlan;
using exec::PlanBody;
using exec::PlanKind;
using exec::WireName;
using namespace std::string_view_literals;

constexpr PlanKind kOfNetworks[] = {
    PlanKind::kCreateNetwork, PlanKind::kDeleteNetwork,
    PlanKind::kInspectNetwork, PlanKind::kRepairNetwork};

// Returns `text` as a name, as a sender without checks would write it.
WireName Unchecked(std::string_view text) {
  WireName name;
  name.size =
      static_cast<std::uint8_t>(std::min<std::size_t>(text.size(), 255));
  std::copy_n(text.begin(), std::min(text.size(), name.bytes.size()),
              name.bytes.begin());
  return name;
}

class NetworkPlanAttacks : public Networks {
 protected:
  void ExpectInvalid(PlanKind kind, const NetworkPlan& plan,
                     std::string_view what) {
    EXPECT_EQ(CodeOf(Do(kind, plan)), "InvalidArgument")
        << static_cast<int>(kind) << " " << ::testing::PrintToString(what);
  }
  // Sends the plan with the fd that its kind requires.
  void ExpectFileInvalid(PlanKind kind, const WireName& name) {
    if (kind == PlanKind::kWriteNetworkFile) {
      fds_.push_back(MemoryWith("content", "text").value());
    }
    EXPECT_EQ(CodeOf(Call(kind,
                          [&](PlanBody* body) {
                            body->network_file = exec::NetworkFilePlan{};
                            body->network_file.allocation = name;
                          })),
              "InvalidArgument");
    fds_.clear();
  }
};

TEST_F(NetworkPlanAttacks, ANameIsNoTextOfOtherLanguages) {
  const NetworkPlan web = Plan("web", 2, 18080);
  Create(web);
  const Inventory before = Inventory::Take();
  const std::string too_long(200, 'a');
  for (const std::string_view text :
       {"x; flush ruleset"sv, "x\nflush ruleset"sv, "a\"b"sv, "a'b"sv, "a\0b"sv,
        "web\0"sv, "../x"sv, "a/b"sv, "/x"sv, "."sv, ".."sv, ""sv, "a b"sv,
        "$(reboot)"sv, "%n%s"sv, "a\\b"sv, "\xc3\xa9"sv,
        std::string_view(too_long)}) {
    for (const PlanKind kind : kOfNetworks) {
      NetworkPlan plan = Plan("db", 3, 18081);
      plan.allocation = Unchecked(text);
      ExpectInvalid(kind, plan, text);
      plan = Plan("db", 3, 18081);
      plan.network = Unchecked(text);
      ExpectInvalid(kind, plan, text);
    }
    ExpectFileInvalid(PlanKind::kWriteNetworkFile, Unchecked(text));
    ExpectFileInvalid(PlanKind::kRemoveNetworkFiles, Unchecked(text));
  }
  EXPECT_EQ(Difference(before, Inventory::Take()), "");

  WriteFile("/run/netns/" + std::string("../x"), "");
  EXPECT_NAIVE(Exists("/run/x"));
  EXPECT_EQ(StateOf(web).elements_present, 1U);
  ASSERT_TRUE(
      exec::RunNftCommand("add table inet " + std::string("x; flush ruleset"))
          .has_value());
  EXPECT_NAIVE(StateOf(web).elements_present == 0U);
}

TEST_F(NetworkPlanAttacks, AnInterfaceIsNamedAsItIsSaid) {
  for (const std::string_view text :
       {"../x"sv, "a/b"sv, "."sv, ".."sv, ""sv, "lo"sv, "eth%d"sv, "%n"sv,
        "eth0:1"sv, "a b"sv, "a\nb"sv, "a\"b"sv, "\xc3\xa9"sv,
        "sixteen-bytes-it"sv}) {
    for (const PlanKind kind : kOfNetworks) {
      NetworkPlan plan = Plan("db", 3, 18081);
      plan.interface = {};
      std::copy(text.begin(), text.end(), plan.interface.begin());
      ExpectInvalid(kind, plan, text);
    }
  }
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
  // The kernel replaces %d by a number, so the link gets another name.
  Shell("ip link add 'eth%d' type veth peer naive0");
  EXPECT_NAIVE(::if_nametoindex("eth0") != 0U);
}

TEST_F(NetworkPlanAttacks, AnAddressIsOneForAllocations) {
  const auto with = [](const char* ipv4, const char* ipv6) {
    NetworkPlan plan = Plan("db", 3, 18081);
    plan.ipv4 = netns::ParseIpv4(ipv4).value();
    plan.ipv6 = netns::ParseIpv6(ipv6).value();
    return plan;
  };
  // Addresses of the host, of a network itself, and of no network.
  for (const char* ipv4 : {"127.0.0.1", "10.88.0.0", "10.88.0.1",
                           "10.88.255.255", "198.51.100.7", "224.0.0.1"}) {
    ExpectInvalid(PlanKind::kCreateNetwork, with(ipv4, "fd88::3"), ipv4);
    ExpectInvalid(PlanKind::kRepairNetwork, with(ipv4, "fd88::3"), ipv4);
  }
  for (const char* ipv6 : {"::1", "fd88::1", "fe80::1", "fd99::2", "ff02::1",
                           "::ffff:10.88.0.1"}) {
    ExpectInvalid(PlanKind::kCreateNetwork, with("10.88.0.3", ipv6), ipv6);
    ExpectInvalid(PlanKind::kRepairNetwork, with("10.88.0.3", ipv6), ipv6);
  }
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
  // Packets to an outside address go to whichever link has a route for it.
  Create(Plan("db", 3, 18081));
  const Server server("/run/netns/db", 80, "attacker");
  EXPECT_EQ(Ask("198.51.100.7", 80, kNoAnswerMs), "");
  Shell("ip -n db addr add 198.51.100.7/32 dev eth0");
  Shell("ip route add 198.51.100.7/32 dev md0a580003 src 10.88.0.1");
  Shell(
      "ip neigh replace 198.51.100.7 lladdr 02:4d:0a:58:00:03 dev md0a580003");
  ASSERT_TRUE(
      exec::RunNftCommand(
          "add element inet mountd src4 { \"md0a580003\" . 198.51.100.7 }")
          .has_value());
  EXPECT_NAIVE(Ask("198.51.100.7", 80) == "attacker");
}

TEST_F(NetworkPlanAttacks, APortThatNoRuleNamesIsNobodys) {
  const auto with = [](std::uint16_t first, std::uint16_t count) {
    NetworkPlan plan = Plan("db", 3, first);
    plan.ports[0].count = count;
    return plan;
  };
  for (const NetworkPlan& plan :
       {with(22, 1), with(18079, 2), with(18090, 2), with(18080, 65535),
        with(18080, 0), with(0, 1)}) {
    ExpectInvalid(PlanKind::kCreateNetwork, plan, "port");
    ExpectInvalid(PlanKind::kRepairNetwork, plan, "port");
  }
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
  const Server sshd("/proc/self/ns/net", 22, "sshd");
  Create(Plan("db", 3, 18081));
  const Server server("/run/netns/db", 80, "attacker");
  EXPECT_EQ(Ask("10.88.0.1", 22), "sshd");
  ASSERT_TRUE(exec::RunNftCommand(
                  "add element inet mountd pm4 { tcp . 22 : 10.88.0.3 . 80 }")
                  .has_value());
  EXPECT_NAIVE(Ask("10.88.0.1", 22) == "attacker");
}

// "web" is the victim's allocation, "db" the attacker's.
class AnothersNetwork : public NetworkPlanAttacks {
 protected:
  void SetUp() override {
    NetworkPlanAttacks::SetUp();
    if (!IsSkipped()) {
      Create(web_);
    }
  }
  // Returns the attacker's plan with an address or port of the victim.
  NetworkPlan With(const netns::Ipv4& ipv4, const netns::Ipv6& ipv6,
                   std::uint16_t port) {
    NetworkPlan plan = Plan("db", 3, port);
    plan.ipv4 = ipv4;
    plan.ipv6 = ipv6;
    return plan;
  }

  // Routes the victim's address to the attacker's link, as a naive daemon
  // without checks does.
  static void NaiveTakeOver() {
    ASSERT_TRUE(exec::RunNftCommand(
                    "add element inet mountd src6 { \"md0a580003\" . fd88::2 }")
                    .has_value());
    Shell("ip route replace fd88::2/128 dev md0a580003");
    Shell("ip neigh replace fd88::2 lladdr 02:4d:0a:58:00:03 dev md0a580003");
  }

  const NetworkPlan web_ = Plan("web", 2, 18080);
  const NetworkPlan db_ = Plan("db", 3, 18081);
};

TEST_F(AnothersNetwork, IsNotMadeAgain) {
  const Inventory before = Inventory::Take();
  EXPECT_EQ(
      CodeOf(Do(PlanKind::kCreateNetwork, With(web_.ipv4, db_.ipv6, 18081))),
      "Busy");
  EXPECT_EQ(
      CodeOf(Do(PlanKind::kCreateNetwork, With(db_.ipv4, web_.ipv6, 18081))),
      "AlreadyExists");
  EXPECT_EQ(
      CodeOf(Do(PlanKind::kCreateNetwork, With(db_.ipv4, db_.ipv6, 18080))),
      "AlreadyExists");
  EXPECT_EQ(DifferenceWithin(before, 20), "");
  Create(db_);
  const Server web("/run/netns/web", 80, "victim");
  const Server db("/run/netns/db", 80, "attacker");
  Shell("ip -n db addr add fd88::2/128 dev eth0 nodad");
  EXPECT_EQ(Ask("fd88::2", 80), "victim");
  NaiveTakeOver();
  EXPECT_NAIVE(Ask("fd88::2", 80) == "attacker");
}

TEST_F(AnothersNetwork, IsNotTakenOverByARepair) {
  const std::uint64_t inode = Create(db_).netns_inode;
  const Server web("/run/netns/web", 80, "victim");
  const Inventory before = Inventory::Take();
  for (NetworkPlan plan :
       {With(web_.ipv4, db_.ipv6, 18081), With(db_.ipv4, web_.ipv6, 18081)}) {
    plan.netns_inode = inode;
    EXPECT_EQ(CodeOf(Do(PlanKind::kRepairNetwork, plan)), "FailedPrecondition");
    EXPECT_EQ(
        Difference(before, Inventory::Take(), Counted::kAllButConnections), "");
    EXPECT_EQ(Ask("fd88::2", 80), "victim");
  }
  const Server db("/run/netns/db", 80, "attacker");
  Shell("ip -n db addr add fd88::2/128 dev eth0 nodad");
  NaiveTakeOver();
  EXPECT_NAIVE(Ask("fd88::2", 80) == "attacker");
}

TEST_F(AnothersNetwork, IsNotTakenAway) {
  Create(db_);
  const Server server("/run/netns/web", 80, "victim");
  const auto reached = [](int timeout_ms) {
    return Ask("10.88.0.1", 18080, timeout_ms) + " " +
           Ask("fd88::1", 18080, timeout_ms);
  };
  for (const NetworkPlan& plan :
       {With(web_.ipv4, web_.ipv6, 18080), With(db_.ipv4, web_.ipv6, 18080),
        With(web_.ipv4, db_.ipv6, 18080), With(db_.ipv4, db_.ipv6, 18080)}) {
    Do(PlanKind::kDeleteNetwork, plan);
    EXPECT_EQ(StateOf(web_).elements_present, 1U);
    EXPECT_EQ(reached(kAnswerMs), "victim victim");
  }
  // The naive deletion goes by the port alone.
  ASSERT_TRUE(
      exec::RunNftCommand("delete element inet mountd pm4 { tcp . 18080 }; "
                          "delete element inet mountd pm6 { tcp . 18080 }")
          .has_value());
  EXPECT_NAIVE(reached(kNoAnswerMs) == " ");
}

}  // namespace
}  // namespace mountd::testing
