// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Networks with IPv6 alone: no link, rule or file of theirs has an IPv4
// address.
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "mountd/kernel/nft_command.h"
#include "tests/root/networks/network_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/net_probe.h"

namespace mountd::testing {
namespace {

using exec::NetworkPlan;
using exec::NetworkState;
using exec::PlanKind;
using exec::Reply;

class NetworksOfIpv6 : public Networks {
 protected:
  void SetUp() override {
    Networks::SetUp();
    if (IsSkipped()) {
      return;
    }
    NetworkConfig six;
    six.ipv6 = {netns::ParseIpv6Range("fd66::/64").value()};
    config_.networks["six"] = six;
    ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
    before_ = Inventory::Take();
  }
  static NetworkPlan Six(const std::string& allocation, std::uint8_t host,
                         std::uint16_t port) {
    NetworkPlan plan = Plan(allocation, host, port);
    plan.network = exec::ToWire("six");
    plan.ipv4 = {};
    plan.ipv6 = netns::ParseIpv6("fd66::").value();
    plan.ipv6.back() = host;
    return plan;
  }
  std::vector<exec::FoundNetwork> Found() {
    EXPECT_EQ(ErrorOf(Call(PlanKind::kListNetworks)), "");
    std::vector<exec::FoundNetwork> rows(8);
    const ssize_t size =
        ::pread(last_fd_.get(), rows.data(), sizeof(rows[0]) * rows.size(), 0);
    rows.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)) /
                sizeof(rows[0]));
    return rows;
  }
  // Returns whether the command finds a line.
  static bool Shows(const std::string& command) {
    return std::system((command + " | grep -q .").c_str()) == 0;
  }
};

TEST_F(NetworksOfIpv6, AProcessInsideIsReachedOnItsAddressAndItsPort) {
  const NetworkPlan plan = Six("web", 2, 18080);
  const NetworkState state = Create(plan);
  EXPECT_NE(state.host_ifindex, 0U);
  EXPECT_EQ(StateOf(plan).elements_present, 1U);
  const Server server(kWebNetns, 80, "hello");
  EXPECT_EQ(Ask("fd66::2", 80), "hello");
  EXPECT_EQ(Ask("fd66::1", 18080), "hello");
  EXPECT_EQ(Ask("127.0.0.1", 18080, kNoAnswerMs), "");
  EXPECT_FALSE(Shows("ip -4 -o addr show dev " + LinkOf(plan)));
  EXPECT_FALSE(Shows("ip -4 route show dev " + LinkOf(plan)));
  EXPECT_FALSE(Shows("ip -n web -4 -o addr show dev eth0"));
  EXPECT_FALSE(Shows("ip -n web -4 route show"));
}

TEST_F(NetworksOfIpv6, AllocationsReachEachOtherUnlessIsolated) {
  Create(Six("web", 2, 18080));
  NetworkPlan db = Six("db", 3, 18081);
  db.flags |= exec::kIsolated;
  Create(db);
  Create(Plan("both", 4, 18082));
  const Server server(kWebNetns, 80, "hello");
  EXPECT_EQ(AskFrom("/run/netns/both", "fd66::2", 80), "hello");
  EXPECT_EQ(AskFrom("/run/netns/db", "fd66::2", 80, kNoAnswerMs), "");
  EXPECT_EQ(AskFrom("/run/netns/db", "fd66::1", 18080), "hello");
  EXPECT_EQ(AskFrom(kWebNetns, "fd66::1", 18080), "hello") << "its own port";
}

TEST_F(NetworksOfIpv6, AnAddressThatIsNotTheAllocationsOwnIsDropped) {
  Create(Six("web", 2, 18080));
  const Server host("/proc/self/ns/net", 7000, "host");
  EXPECT_EQ(AskFrom(kWebNetns, "fd66::1", 7000), "host");
  ASSERT_TRUE(exec::RunNftCommand("flush set inet mountd src6").has_value());
  EXPECT_EQ(AskFrom(kWebNetns, "fd66::1", 7000, kNoAnswerMs), "");
}

TEST_F(NetworksOfIpv6, ItsPacketsToTheOutsideAreMasqueraded) {
  EXPECT_TRUE(
      Shows("nft list chain inet mountd nat_post | "
            "grep 'ip6 saddr.*fd66::/64.*masquerade'"));
}

TEST_F(NetworksOfIpv6, TheSamePlanAgainAndTheDeleteChangeNothingElse) {
  const NetworkPlan other = Six("db", 3, 18081);
  Create(other);
  const Inventory alone = Inventory::Take();
  NetworkPlan plan = Six("web", 2, 18080);
  const NetworkState first = Create(plan);
  const Inventory once = Inventory::Take();
  EXPECT_EQ(Create(plan).host_ifindex, first.host_ifindex);
  EXPECT_EQ(Difference(once, Inventory::Take()), "");
  plan.netns_inode = first.netns_inode;
  Delete(plan);
  EXPECT_EQ(DifferenceWithin(alone, 20), "");
  EXPECT_EQ(StateOf(plan).netns_inode, 0U);
  EXPECT_TRUE(Eventually([&] { return StateOf(plan).host_ifindex == 0; }));
  EXPECT_EQ(StateOf(other).elements_present, 1U);
}

TEST_F(NetworksOfIpv6, AnAddressOrAPortThatIsTakenIsRefused) {
  const NetworkPlan web = Six("web", 2, 18080);
  Create(web);
  EXPECT_EQ(CodeOf(Do(PlanKind::kCreateNetwork, Six("db", 2, 18081))), "Busy");
  EXPECT_EQ(CodeOf(Do(PlanKind::kCreateNetwork, Six("db", 3, 18080))),
            "AlreadyExists");
  EXPECT_EQ(StateOf(web).elements_present, 1U);
  EXPECT_EQ(StateOf(Six("db", 3, 18080)).host_ifindex, 0U);
  // Another allocation's plan for the same address takes nothing away.
  Delete(Six("db", 2, 18080));
  EXPECT_EQ(StateOf(web).elements_present, 1U);
  const Server server(kWebNetns, 80, "hello");
  EXPECT_EQ(Ask("fd66::1", 18080), "hello");
}

TEST_F(NetworksOfIpv6, AreFoundWithoutARecord) {
  const NetworkPlan plan = Six("web", 2, 18080);
  const NetworkState state = Create(plan);
  const std::vector<exec::FoundNetwork> found = Found();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(exec::Text(found[0].allocation), "web");
  EXPECT_EQ(found[0].netns_inode, state.netns_inode);
  EXPECT_TRUE(netns::IsNone(found[0].ipv4));
  EXPECT_EQ(found[0].ipv6, plan.ipv6);
  ASSERT_EQ(found[0].port_count, 1U);
  EXPECT_EQ(found[0].ports[0].host_port, 18080U);
  EXPECT_EQ(found[0].ports[0].protocols, exec::kTcp | exec::kUdp);
  // Without the element nothing says the address. The namespace is found
  // alone, and takes its link with it.
  ASSERT_TRUE(exec::RunNftCommand("flush set inet mountd src6").has_value());
  const std::vector<exec::FoundNetwork> bare = Found();
  ASSERT_EQ(bare.size(), 1U);
  EXPECT_FALSE(netns::HasAddress(bare[0]));
  EXPECT_EQ(bare[0].netns_inode, state.netns_inode);
}

TEST_F(NetworksOfIpv6, ARepairPutsBackWhatOthersRemoved) {
  NetworkPlan plan = Six("web", 2, 18080);
  plan.netns_inode = Create(plan).netns_inode;
  const auto repaired = [&] {
    const Reply reply = Do(PlanKind::kRepairNetwork, plan);
    EXPECT_EQ(ErrorOf(reply), "");
    return reply.body.network.repaired;
  };
  const auto answers = [] {
    const Server server(kWebNetns, 80, "hello");
    return Ask("fd66::1", 18080) == "hello" && Ask("fd66::2", 80) == "hello";
  };
  EXPECT_EQ(repaired(), 0U) << "a whole network needs nothing";
  Shell("ip -6 route del fd66::2");
  EXPECT_EQ(repaired(), exec::kRepairedHostEnd);
  EXPECT_TRUE(answers());
  Shell("ip -n web -6 route del default");
  EXPECT_EQ(repaired(), exec::kRepairedInside);
  EXPECT_TRUE(answers());
  ASSERT_TRUE(exec::RunNftCommand("flush map inet mountd pm6").has_value());
  EXPECT_EQ(repaired(), exec::kRepairedElements);
  EXPECT_TRUE(answers());
  Shell("ip link del " + LinkOf(plan));
  EXPECT_NE(repaired() & exec::kRepairedLink, 0U);
  EXPECT_TRUE(answers());
  EXPECT_EQ(repaired(), 0U);
}

// Each kernel call fails once, or is the last that the executor makes.
TEST_F(NetworksOfIpv6, ACutOffCreateIsRemovedWhole) {
  const NetworkPlan plan = Six("web", 2, 18080);
  for (const bool killed : {false, true}) {
    bool reached = true;
    for (std::size_t k = 1; reached && !HasFailure(); ++k) {
      killed ? kernel_.DieAt(k) : kernel_.FailAt(k, EIO);
      const Reply reply = Do(PlanKind::kCreateNetwork, plan);
      reached = kernel_.calls().size() >= k;
      SCOPED_TRACE(std::to_string(k) + ": " +
                   (reached ? kernel_.calls()[k - 1] : "none"));
      kernel_.FailAt(0, 0);
      if (reply.code == 0 && reached) {
        EXPECT_EQ(StateOf(plan).elements_present, 1U);
      }
      Delete(plan);
      Delete(plan);
      EXPECT_EQ(DifferenceWithin(before_, 20), "");
    }
  }
}

}  // namespace
}  // namespace mountd::testing
