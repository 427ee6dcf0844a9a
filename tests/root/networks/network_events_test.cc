// SPDX-License-Identifier: LGPL-2.1-or-later
#include <sys/prctl.h>
#include <sys/socket.h>

#include <array>

#include "netns/events/events.h"
#include "tests/root/networks/network_fixture.h"
#include "tests/support/eventually.h"

// The sockets of WatchNetworks report the right notifications.
namespace mountd::testing {
namespace {

using exec::NetworkPlan;
using exec::NetworkWatchKind;
using exec::PlanKind;

// Gives this process the executor's name while this object lives, because
// mountd recognises its own transactions by the comm of the thread that makes
// them.
class AsExecutor {
 public:
  AsExecutor() {
    ::prctl(PR_GET_NAME, name_.data());
    ::prctl(PR_SET_NAME, "mountd-exec");
  }
  ~AsExecutor() { ::prctl(PR_SET_NAME, name_.data()); }
  AsExecutor(const AsExecutor&) = delete;
  AsExecutor& operator=(const AsExecutor&) = delete;

 private:
  std::array<char, 16> name_{};
};

class NetworkEvents : public Networks {
 protected:
  UniqueFd Watch(NetworkWatchKind kind) {
    const exec::Reply reply =
        Call(PlanKind::kWatchNetworks,
             [&](exec::PlanBody* body) { body->network_watch = {kind}; });
    EXPECT_EQ(ErrorOf(reply), "");
    EXPECT_TRUE(last_fd_.valid());
    return std::move(last_fd_);
  }
  void PrepareAnew() {
    EXPECT_EQ(ErrorOf(Call(
                  PlanKind::kPrepareNetworks,
                  [](exec::PlanBody* body) { body->prepare_networks = {1}; })),
              "");
  }

  const NetworkPlan plan_ = Plan("web", 2, 18080);
};

TEST_F(NetworkEvents, AnotherKindOfWatchIsRefused) {
  for (const std::uint32_t kind : {0U, 3U}) {
    EXPECT_EQ(CodeOf(Call(PlanKind::kWatchNetworks,
                          [&](exec::PlanBody* body) {
                            body->network_watch = {
                                static_cast<NetworkWatchKind>(kind)};
                          })),
              "InvalidArgument");
  }
}

TEST_F(NetworkEvents, EachCallThatFailsIsAnErrorWithoutASocket) {
  const auto watch = [&](NetworkWatchKind kind) {
    return Call(PlanKind::kWatchNetworks,
                [&](exec::PlanBody* body) { body->network_watch = {kind}; });
  };
  for (const NetworkWatchKind kind :
       {NetworkWatchKind::kLinks, NetworkWatchKind::kRuleset}) {
    for (const int error : exec::kErrorsOfAnyCall) {
      bool reached = true;
      for (std::size_t k = 1; reached; ++k) {
        kernel_.FailAt(k, error);
        const exec::Reply reply = watch(kind);
        reached = kernel_.calls().size() >= k;
        SCOPED_TRACE("call " + std::to_string(k) + ", errno " +
                     std::to_string(error));
        EXPECT_EQ(reply.code != 0, reached);
        EXPECT_EQ(last_fd_.valid(), !reached);
        last_fd_.reset();
      }
    }
  }
  ExpectFailed({"Subscribe"});
}

// ---- Links ----

class NetworkLinkEvents : public NetworkEvents {
 protected:
  void SetUp() override {
    NetworkEvents::SetUp();
    if (!IsSkipped()) {
      socket_ = Watch(NetworkWatchKind::kLinks);
    }
  }

  netns::LinkEvents Read() {
    auto events = netns::ReadLinkEvents(socket_.get());
    EXPECT_TRUE(events.has_value() && !events->overflowed);
    return events ? *events : netns::LinkEvents{};
  }
  // True if the events concern the allocation's network.
  bool Concerns(const netns::LinkEvents& events) const {
    return events.links.contains(LinkOf(plan_)) ||
           events.allocations.contains("web") ||
           events.ipv4.contains(plan_.ipv4) || events.ipv6.contains(plan_.ipv6);
  }
  // Creates the network, and reads all notifications of that.
  void CreateQuietly() {
    Create(plan_);
    ReadToTheEnd();
  }
  void ReadToTheEnd() {
    ASSERT_TRUE(Eventually([this] {
      const netns::LinkEvents events = Read();
      return events.links.empty() && events.allocations.empty() &&
             events.ipv4.empty() && events.ipv6.empty();
    }));
  }

  UniqueFd socket_;
};

TEST_F(NetworkLinkEvents, ANetworkThatIsMadeLeavesNoneOnceItIsUp) {
  Create(plan_);
  EXPECT_FALSE(Concerns(Read()));
  // Neither another network nor a repair without work concerns this network.
  Create(Plan("db", 3, 18081));
  NetworkPlan recorded = plan_;
  recorded.netns_inode = StateOf(plan_).netns_inode;
  EXPECT_EQ(ErrorOf(Do(PlanKind::kRepairNetwork, recorded)), "");
  EXPECT_FALSE(Concerns(Read()));
}

TEST_F(NetworkLinkEvents, ALinkThatGoesIsNamed) {
  CreateQuietly();
  Shell("ip link del " + LinkOf(plan_));
  EXPECT_TRUE(Read().links.contains(LinkOf(plan_)));
  EXPECT_FALSE(Concerns(Read())) << "once";
}

TEST_F(NetworkLinkEvents, ALinkThatDiesWithItsNamespaceIsNamed) {
  CreateQuietly();
  Delete(plan_);
  EXPECT_TRUE(
      Eventually([this] { return Read().links.contains(LinkOf(plan_)); }));
}

TEST_F(NetworkLinkEvents, ALinkThatIsDownIsNamed) {
  CreateQuietly();
  Shell("ip link set " + LinkOf(plan_) + " down");
  EXPECT_TRUE(Read().links.contains(LinkOf(plan_)));
}

TEST_F(NetworkLinkEvents, ALinkWithAnotherMacIsNamedUntilItHasItsOwn) {
  CreateQuietly();
  const std::string command = "ip link set " + LinkOf(plan_) + " address ";
  Shell(command + "02:00:00:00:00:99");
  EXPECT_TRUE(Read().links.contains(LinkOf(plan_)));
  Shell(command + "02:00:00:00:00:98 && " + command + "02:4d:00:00:00:01");
  EXPECT_FALSE(Read().links.contains(LinkOf(plan_)));
}

// The kernel sends no notification about a setting alone, so the test changes
// the link, too.
TEST_F(NetworkLinkEvents, ALinkThatDoesNotRouteLocalnetIsNamed) {
  CreateQuietly();
  Shell("echo 0 >/proc/sys/net/ipv4/conf/" + LinkOf(plan_) +
        "/route_localnet && ip link set " + LinkOf(plan_) + " mtu 1400");
  EXPECT_TRUE(Read().links.contains(LinkOf(plan_)));
}

TEST_F(NetworkLinkEvents, ALinkThatIsRenamedIsToldByItsAllocation) {
  CreateQuietly();
  Shell("ip link set " + LinkOf(plan_) + " down && ip link set " +
        LinkOf(plan_) + " name other0");
  Read();
  Shell("ip link set other0 up");
  const netns::LinkEvents events = Read();
  EXPECT_TRUE(events.allocations.contains("web"));
  EXPECT_TRUE(events.links.empty());
}

// The link is up again when the events are read, but has lost its routes.
TEST_F(NetworkLinkEvents, ALinkThatWasDownMeanwhileConcernsTheNetwork) {
  CreateQuietly();
  Shell("ip link set " + LinkOf(plan_) + " down && ip link set " +
        LinkOf(plan_) + " up");
  EXPECT_TRUE(Concerns(Read()));
}

TEST_F(NetworkLinkEvents, RoutesAndNeighboursThatGoAreToldByTheirAddress) {
  CreateQuietly();
  const std::string link = LinkOf(plan_);
  const struct {
    std::string command;
    bool ipv6;
  } kEventRows[] = {
      {"ip route del 10.88.0.2", false},
      {"ip -6 route del fd88::2", true},
      {"ip neigh del 10.88.0.2 dev " + link, false},
      {"ip neigh del fd88::2 dev " + link, true},
  };
  for (const auto& row : kEventRows) {
    SCOPED_TRACE(row.command);
    Shell(row.command);
    const netns::LinkEvents events = Read();
    EXPECT_EQ(events.ipv4.contains(plan_.ipv4), !row.ipv6);
    EXPECT_EQ(events.ipv6.contains(plan_.ipv6), row.ipv6);
    EXPECT_FALSE(events.links.contains(link));
  }
}

TEST_F(NetworkLinkEvents, ChangesOfRoutesAndNeighboursAreToldToo) {
  CreateQuietly();
  const std::string link = LinkOf(plan_);
  for (const std::string& command :
       {"ip neigh replace 10.88.0.2 nud permanent "
        "lladdr 02:00:00:00:00:99 dev " +
            link,
        "ip neigh replace 10.88.0.2 nud reachable "
        "lladdr 02:4d:0a:58:00:02 dev " +
            link,
        std::string("ip route replace 10.88.0.2 dev lo"),
        std::string("ip route replace blackhole 10.88.0.2")}) {
    SCOPED_TRACE(command);
    Shell(command);
    EXPECT_TRUE(Read().ipv4.contains(plan_.ipv4));
  }
  for (const std::string& command :
       {"ip neigh replace fd88::2 nud permanent "
        "lladdr 02:00:00:00:00:99 dev " +
            link,
        "ip -6 route replace fd88::2 dev " + link + " mtu 1400"}) {
    SCOPED_TRACE(command);
    Shell(command);
    EXPECT_TRUE(Read().ipv6.contains(plan_.ipv6));
  }
}

TEST_F(NetworkLinkEvents, TheHostsAddressThatGoesIsTold) {
  CreateQuietly();
  Shell("ip addr del 10.88.0.1/32 dev lo");
  EXPECT_TRUE(Read().ipv4.contains(netns::Ipv4{10, 88, 0, 1}));
}

TEST_F(NetworkLinkEvents, OtherLinksAreNobodys) {
  CreateQuietly();
  Shell(
      "ip link add other0 type veth peer name other1 && "
      "ip link set other0 up && ip link del other0");
  const netns::LinkEvents events = Read();
  EXPECT_TRUE(events.links.empty());
  EXPECT_FALSE(Concerns(events));
}

TEST_F(NetworkLinkEvents, WhatDoesNotFitIsSaidToBeMissing) {
  const int least = 1;
  ASSERT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &least,
                         sizeof(least)),
            0);
  for (int i = 0; i < 16; ++i) {
    Shell("ip addr add 192.0.2.1/32 dev lo && ip addr del 192.0.2.1/32 dev lo");
  }
  const auto events = netns::ReadLinkEvents(socket_.get());
  ASSERT_TRUE(events.has_value());
  EXPECT_TRUE(events->overflowed);
  EXPECT_FALSE(netns::ReadLinkEvents(socket_.get())->overflowed);
}

// ---- The ruleset ----

class NetworkRulesetEvents : public NetworkEvents {
 protected:
  void SetUp() override {
    NetworkEvents::SetUp();
    if (!IsSkipped()) {
      socket_ = Watch(NetworkWatchKind::kRuleset);
    }
  }

  bool Changed() {
    const auto events = reader_.Read(socket_.get());
    EXPECT_TRUE(events.has_value());
    EXPECT_FALSE(events->overflowed);
    return events->changed;
  }
  bool ChangedBy(const std::string& nft) {
    Shell("nft '" + nft + "'");
    return Changed();
  }

  netns::RulesetEventReader reader_;
  UniqueFd socket_;
};

TEST_F(NetworkRulesetEvents, TheExecutorsOwnTransactionsAreNone) {
  {
    const AsExecutor name;
    Create(plan_);
    EXPECT_FALSE(Changed());
    PrepareAnew();
    EXPECT_FALSE(Changed());
    Delete(plan_);
    EXPECT_FALSE(Changed());
  }
  ASSERT_TRUE(Eventually([this] { return StateOf(plan_).host_ifindex == 0; }));
  // The same transactions by a process of another name count as another
  // program's.
  Create(plan_);
  EXPECT_TRUE(Changed());
  EXPECT_FALSE(Changed()) << "once";
}

TEST_F(NetworkRulesetEvents, WhatOthersDoToOurTableIsAChange) {
  {
    const AsExecutor name;
    Create(plan_);
  }
  EXPECT_FALSE(Changed());
  for (const char* command :
       {"delete element inet mountd pm4 { tcp . 18080 }",
        "add element inet mountd open { \"md00000000\" }",
        "flush map inet mountd pm6", "flush chain inet mountd guard",
        "insert rule inet mountd forward accept",
        "add chain inet mountd another",
        "add set inet mountd another { type mark; }",
        "delete table inet mountd"}) {
    EXPECT_TRUE(ChangedBy(command)) << command;
    EXPECT_FALSE(Changed()) << command;
  }
  {
    const AsExecutor name;
    PrepareAnew();
    EXPECT_FALSE(Changed());
  }
  EXPECT_TRUE(ChangedBy("flush ruleset"));
}

TEST_F(NetworkRulesetEvents, OperatorsRulesAreNone) {
  EXPECT_FALSE(ChangedBy("add rule inet mountd admin counter"));
  EXPECT_FALSE(
      ChangedBy("insert rule inet mountd admin ip daddr 1.2.3.4 drop"));
  // Rules in the chain `admin` may have sets and maps of their own.
  EXPECT_FALSE(ChangedBy("add rule inet mountd admin tcp dport { 1, 2 } drop"));
  EXPECT_FALSE(ChangedBy(
      "add rule inet mountd admin tcp dport vmap { 3 : accept, 4 : drop }"));
  EXPECT_FALSE(
      ChangedBy("add rule inet mountd admin tcp dport 5 jump { drop; }"));
  EXPECT_FALSE(ChangedBy("flush chain inet mountd admin"));
  // A transaction that also changes a chain of mountd's is a change.
  EXPECT_TRUE(ChangedBy(
      "add rule inet mountd admin counter; flush chain inet mountd guard"));
}

TEST_F(NetworkRulesetEvents, OtherTablesAreNobodys) {
  EXPECT_FALSE(ChangedBy("add table inet other"));
  EXPECT_FALSE(
      ChangedBy("add chain inet other guard; "
                "add rule inet other guard counter; "
                "add set inet other src4 { type ipv4_addr; }; "
                "add element inet other src4 { 1.2.3.4 }"));
  EXPECT_FALSE(ChangedBy("delete table inet other"));
}

}  // namespace
}  // namespace mountd::testing
