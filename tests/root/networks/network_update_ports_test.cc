// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Ports of a network that are replaced while its processes run.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "mountd/kernel/nft_command.h"
#include "tests/root/networks/network_fixture.h"
#include "tests/support/net_probe.h"

namespace mountd::testing {
namespace {

using exec::NetworkPlan;
using exec::PlanKind;
using exec::PortMap;
using exec::PortsPlan;
using exec::Reply;

constexpr std::uint8_t kBoth = exec::kTcp | exec::kUdp;

class UpdatePorts : public Networks {
 protected:
  void SetUp() override {
    Networks::SetUp();
    if (!IsSkipped()) {
      web_ = Plan("web", 2, 18080);
      web_.netns_inode = Create(web_).netns_inode;
      web_.origin = exec::NamespaceOrigin::kExisting;
    }
  }
  static PortMap Port(std::uint16_t host, std::uint16_t container,
                      std::uint8_t protocols = kBoth) {
    return {host, container, protocols, 0};
  }
  NetworkPlan With(const std::vector<PortMap>& ports) const {
    NetworkPlan plan = web_;
    plan.port_count = static_cast<std::uint32_t>(ports.size());
    std::copy(ports.begin(), ports.end(), plan.ports.begin());
    return plan;
  }
  static PortsPlan From(const NetworkPlan& old, const NetworkPlan& next) {
    PortsPlan plan;
    plan.network = next;
    plan.old_count = old.port_count;
    plan.old_ports = old.ports;
    return plan;
  }
  Reply Do(const PortsPlan& plan) {
    return Call(PlanKind::kUpdatePorts,
                [&](exec::PlanBody* body) { body->ports = plan; });
  }
  Reply Replace(const NetworkPlan& old, const NetworkPlan& next) {
    return Do(From(old, next));
  }
  bool Has(const NetworkPlan& plan) {
    return StateOf(plan).elements_present != 0;
  }

  NetworkPlan web_;
};

TEST_F(UpdatePorts, TheNewPortsAnswerAndTheOldDoNot) {
  const Server first(kWebNetns, 80, "first");
  const Server second(kWebNetns, 81, "second");
  ASSERT_EQ(Ask("127.0.0.1", 18080), "first");
  const NetworkPlan next = With({Port(18081, 80), Port(18082, 81)});
  const NetworkPlan old = With({Port(18080, 80)});
  ASSERT_EQ(ErrorOf(Replace(old, next)), "");
  for (const char* address : {"127.0.0.1", "fd88::1"}) {
    EXPECT_EQ(Ask(address, 18081), "first");
    EXPECT_EQ(Ask(address, 18082), "second");
    EXPECT_EQ(Ask(address, 18080, kNoAnswerMs), "");
  }
  const Inventory once = Inventory::Take();
  ASSERT_EQ(ErrorOf(Replace(old, next)), "") << "the same plan again";
  EXPECT_EQ(Difference(once, Inventory::Take()), "");
  // A host port leads to another container port, in the same transaction.
  const NetworkPlan crossed = With({Port(18081, 81), Port(18082, 80)});
  ASSERT_EQ(ErrorOf(Replace(next, crossed)), "");
  EXPECT_EQ(Ask("127.0.0.1", 18081), "second");
  EXPECT_EQ(Ask("127.0.0.1", 18082), "first");
  ASSERT_EQ(ErrorOf(Replace(crossed, With({}))), "");
  EXPECT_EQ(Ask("127.0.0.1", 18081, kNoAnswerMs), "");
  EXPECT_TRUE(Has(With({}))) << "its own elements stay";
}

// A UDP client keeps its source port, so its packets belong to one connection.
TEST_F(UpdatePorts, ConnectionsOfPortsThatStayGoOnAndOthersEnd) {
  const NetworkPlan old = With({Port(18080, 80), Port(18081, 81)});
  ASSERT_EQ(ErrorOf(Replace(With({Port(18080, 80)}), old)), "");
  Listener stays(kWebNetns, "10.88.0.2", 80);
  Listener goes(kWebNetns, "10.88.0.2", 81);
  const auto client = [](std::uint16_t port) {
    UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(0x0A580001);  // 10.88.0.1
    EXPECT_EQ(
        ::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)),
        0);
    return socket;
  };
  const UniqueFd one = client(18080);
  const UniqueFd two = client(18081);
  ASSERT_EQ(::send(one.get(), "x", 1, 0), 1);
  ASSERT_NE(stays.Hear(), "");
  ASSERT_EQ(::send(two.get(), "x", 1, 0), 1);
  ASSERT_NE(goes.Hear(), "");
  ASSERT_EQ(ErrorOf(Replace(old, With({Port(18080, 80)}))), "");
  ASSERT_EQ(::send(one.get(), "x", 1, 0), 1);
  EXPECT_NE(stays.Hear(), "");
  (void)!::send(two.get(), "x", 1, 0);
  EXPECT_EQ(goes.Hear(kNoAnswerMs), "");
}

// The executor may be killed after it has removed the map.
TEST_F(UpdatePorts, ConnectionsOfACutOffUpdateEndWithTheNextOne) {
  const NetworkPlan next = With({Port(18080, 80)});
  const NetworkPlan old = With({Port(18080, 80), Port(18081, 81)});
  ASSERT_EQ(ErrorOf(Replace(next, old)), "");
  kernel_.FailAt(0, 0);
  ASSERT_EQ(ErrorOf(Replace(old, next)), "");
  const std::size_t last = kernel_.calls().size();
  Listener goes(kWebNetns, "10.88.0.2", 81);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(18081);
  to.sin_addr.s_addr = htonl(0x0A580001);  // 10.88.0.1
  for (std::size_t k = last - 3; k <= last; ++k) {
    SCOPED_TRACE("call " + std::to_string(k) + " of " + std::to_string(last));
    ASSERT_EQ(ErrorOf(Replace(next, old)), "");
    const UniqueFd client(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(
        ::connect(client.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)),
        0);
    ASSERT_EQ(::send(client.get(), "x", 1, 0), 1);
    ASSERT_NE(goes.Hear(), "");
    kernel_.DieAt(k);
    Replace(old, next);
    kernel_.FailAt(0, 0);
    ASSERT_EQ(ErrorOf(Replace(old, next)), "");
    (void)!::send(client.get(), "x", 1, 0);
    EXPECT_EQ(goes.Hear(kNoAnswerMs), "");
  }
}

// Any client decides how many connections there are. The executor names them in
// portions, and reads the kernel's list only once.
TEST_F(UpdatePorts, ManyConnectionsEndInPortions) {
  constexpr std::size_t kClients = 600;
  const NetworkPlan next = With({Port(18080, 80)});
  const NetworkPlan old = With({Port(18080, 80), Port(18081, 81)});
  ASSERT_EQ(ErrorOf(Replace(next, old)), "");
  Listener goes(kWebNetns, "10.88.0.2", 81);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(18081);
  to.sin_addr.s_addr = htonl(0x0A580001);  // 10.88.0.1
  std::vector<UniqueFd> clients;
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.emplace_back(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(clients.back().get(), reinterpret_cast<sockaddr*>(&to),
                        sizeof(to)),
              0);
    ASSERT_EQ(::send(clients.back().get(), "x", 1, 0), 1);
    ASSERT_NE(goes.Hear(), "");
  }
  kernel_.FailAt(0, 0);
  ASSERT_EQ(ErrorOf(Replace(old, next)), "");
  const auto sends =
      std::count(kernel_.calls().begin(), kernel_.calls().end(), "Send");
  EXPECT_LT(sends, 30);
  for (const UniqueFd& client : clients) {
    (void)!::send(client.get(), "x", 1, 0);
  }
  EXPECT_EQ(goes.Hear(kNoAnswerMs), "");
}

// All networks of the host wait for the plan, and the kernel goes through the
// connections of the whole host at each question about them.
TEST_F(UpdatePorts, ManyPortsGoWithFewCallsOfTheKernel) {
  PortMap range = Port(20000, 20000);
  range.count = 200;
  const NetworkPlan old = With({Port(18080, 80), range});
  ASSERT_EQ(ErrorOf(Replace(With({Port(18080, 80)}), old)), "");
  kernel_.FailAt(0, 0);
  ASSERT_EQ(ErrorOf(Replace(old, With({Port(18080, 80)}))), "");
  EXPECT_LT(std::count(kernel_.calls().begin(), kernel_.calls().end(), "Send"),
            300);
}

TEST_F(UpdatePorts, ATakenPortIsRefusedAndNothingChanges) {
  const NetworkPlan db = Plan("db", 3, 18081);
  Create(db);
  const NetworkPlan old = With({Port(18080, 80)});
  const Inventory before = Inventory::Take();
  const Reply mapped = Replace(old, With({Port(18082, 80), Port(18081, 80)}));
  EXPECT_EQ(CodeOf(mapped), "AlreadyExists");
  EXPECT_NE(ErrorOf(mapped).find("18081"), std::string::npos);
  {
    const Server host("/proc/self/ns/net", 18083, "host");
    const Reply listened = Replace(old, With({Port(18083, 80)}));
    EXPECT_EQ(CodeOf(listened), "AlreadyExists");
    EXPECT_NE(ErrorOf(listened).find("18083"), std::string::npos);
  }
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
  // Only if it is free: the rest is mapped.
  PortMap udp = Port(18081, 80, kBoth);
  udp.host_port = 18084;
  PortMap wish = Port(18081, 80, exec::kTcp);
  wish.if_free = exec::kTcp;
  const Reply some = Replace(old, With({udp, wish}));
  ASSERT_EQ(ErrorOf(some), "");
  EXPECT_EQ(some.body.network.unmapped[0], 0U);
  EXPECT_EQ(some.body.network.unmapped[1], exec::kTcp);
  EXPECT_TRUE(Has(With({udp})));
  EXPECT_TRUE(Has(db));
  EXPECT_FALSE(Has(old));
}

// Such a socket may also be the one that keeps the port for the allocation
// (NetworkPlan::has_keeper), for which this plan has no pidfd.
TEST_F(UpdatePorts, ASocketThatCameLaterTakesNoPortOfTheNetwork) {
  const Server host("/proc/self/ns/net", 18080, "host");
  const NetworkPlan next = With({Port(18080, 81)});
  EXPECT_EQ(ErrorOf(Replace(With({Port(18080, 80)}), next)), "");
  EXPECT_TRUE(Has(next));
}

// A compromised mountd names addresses that are in the range and not the
// network's own.
TEST_F(UpdatePorts, NoPortLeadsToAnotherAllocation) {
  NetworkPlan db = Plan("db", 3, 18081);
  db.netns_inode = Create(db).netns_inode;
  const NetworkPlan old = With({Port(18080, 80)});
  const Inventory before = Inventory::Take();
  const auto refused = [&](const auto& change) {
    PortsPlan plan = From(old, With({Port(18090, 80)}));
    change(plan.network);
    const Reply reply = Do(plan);
    EXPECT_EQ(Difference(before, Inventory::Take()), "");
    return CodeOf(reply);
  };
  EXPECT_EQ(refused([&](NetworkPlan& plan) { plan.ipv6 = db.ipv6; }),
            "FailedPrecondition");
  EXPECT_EQ(refused([&](NetworkPlan& plan) { plan.ipv4 = db.ipv4; }),
            "FailedPrecondition");
  EXPECT_EQ(refused([&](NetworkPlan& plan) {
              plan.ipv4 = db.ipv4;
              plan.ipv6 = db.ipv6;
            }),
            "FailedPrecondition");
  EXPECT_EQ(refused([&](NetworkPlan& plan) { plan.ipv6.back() = 9; }),
            "FailedPrecondition")
      << "nobody's address";
  EXPECT_EQ(refused([&](NetworkPlan& plan) { plan.ipv4 = {}; }),
            "FailedPrecondition");
  EXPECT_EQ(refused([&](NetworkPlan& plan) {
              plan.allocation = db.allocation;
              plan.netns_inode = db.netns_inode;
            }),
            "FailedPrecondition");
  EXPECT_EQ(refused([](NetworkPlan& plan) { ++plan.netns_inode; }),
            "FailedPrecondition");
  EXPECT_EQ(refused([](NetworkPlan& plan) {
              plan.ipv6 = netns::ParseIpv6("2001:db8::2").value();
            }),
            "InvalidArgument");
  EXPECT_EQ(refused([](NetworkPlan& plan) {
              plan.ipv4 = {127, 0, 0, 1};
            }),
            "InvalidArgument");
  EXPECT_EQ(refused([](NetworkPlan& plan) {
              plan.origin = exec::NamespaceOrigin::kNew;
            }),
            "InvalidArgument");
  // The old ports of the plan are removed only where they lead to the network.
  PortsPlan thief = From(With({Port(18081, 80)}), old);
  EXPECT_EQ(ErrorOf(Do(thief)), "");
  EXPECT_TRUE(Has(db));
}

// The kernel has the old ports or the new ones, whatever call fails, and the
// same plan again ends with the new ones.
TEST_F(UpdatePorts, ACutOffUpdateLeavesOneOfBothSets) {
  const NetworkPlan old = With({Port(18080, 80), Port(18081, 81)});
  const NetworkPlan next = With({Port(18080, 80), Port(18082, 81)});
  ASSERT_EQ(ErrorOf(Replace(With({Port(18080, 80)}), old)), "");
  // The first update that takes ports away opens a socket that is kept.
  ASSERT_EQ(ErrorOf(Replace(old, next)), "");
  ASSERT_EQ(ErrorOf(Replace(next, old)), "");
  const Inventory before = Inventory::Take();
  ASSERT_EQ(ErrorOf(Replace(old, next)), "");
  const Inventory after = Inventory::Take();
  for (const int error : {0, EIO, EAGAIN, ENOBUFS}) {
    bool reached = true;
    for (std::size_t k = 1; reached && !HasFailure(); ++k) {
      ASSERT_EQ(ErrorOf(Replace(next, old)), "");
      error == 0 ? kernel_.DieAt(k) : kernel_.FailAt(k, error);
      const Reply reply = Replace(old, next);
      reached = kernel_.calls().size() >= k;
      SCOPED_TRACE(std::to_string(error) + " at call " + std::to_string(k) +
                   ": " + (reached ? kernel_.calls()[k - 1] : "none"));
      kernel_.FailAt(0, 0);
      const Inventory now = Inventory::Take();
      EXPECT_TRUE(Difference(before, now).empty() ||
                  Difference(after, now).empty())
          << ErrorOf(reply) << "\nbefore: " << Difference(before, now)
          << "\nafter: " << Difference(after, now);
      ASSERT_EQ(ErrorOf(Replace(old, next)), "");
      EXPECT_EQ(Difference(after, Inventory::Take()), "");
    }
  }
}

}  // namespace
}  // namespace mountd::testing
