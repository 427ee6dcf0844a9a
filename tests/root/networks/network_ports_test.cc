// SPDX-License-Identifier: LGPL-2.1-or-later
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "mountd/kernel/nft_command.h"
#include "tests/root/networks/network_fixture.h"
#include "tests/support/naive.h"
#include "tests/support/net_probe.h"

// Port maps and the other traffic that the rules permit, with real packets.
namespace mountd::testing {
namespace {

using exec::NetworkPlan;
using exec::PlanKind;
using exec::PortMap;

// Returns a map of TCP and UDP to port 80, at one address of the host ("":
// any).
PortMap MapAt(const std::string& address, std::uint16_t port) {
  const netns::HostIp ip = netns::ParseHostIp(address).value();
  PortMap map{port, 80, exec::kTcp | exec::kUdp, 0};
  map.host_family = static_cast<std::uint8_t>(ip.family);
  map.host_address = ip.bytes;
  return map;
}

class NetworkPorts : public Networks {
 protected:
  void SetUp() override {
    Networks::SetUp();
    if (IsSkipped()) {
      return;
    }
    // A machine may have these addresses beside mountd's.
    for (const char* address : {"192.0.2.1/32", "192.0.2.3/32",
                                "2001:db8::1/128", "2001:db8::3/128"}) {
      Shell(std::string("ip addr add ") + address + " dev lo");
    }
    before_ = Inventory::Take();
  }

  static NetworkPlan PlanWith(const std::string& allocation, std::uint8_t host,
                              const std::vector<PortMap>& maps) {
    NetworkPlan plan = Plan(allocation, host, 0);
    plan.port_count = static_cast<std::uint32_t>(maps.size());
    std::copy(maps.begin(), maps.end(), plan.ports.begin());
    return plan;
  }
  // Returns the addresses that answer the host at the port; the others refuse
  // the connection at once.
  static std::string AnswersAt(const std::vector<std::string>& addresses,
                               std::uint16_t port) {
    std::string text;
    for (const std::string& address : addresses) {
      if (!Ask(address, port).empty()) {
        text += (text.empty() ? "" : " ") + address;
      }
    }
    return text;
  }
};

TEST_F(NetworkPorts, OneAddressOfTheHostIsMappedAtThatAlone) {
  Create(PlanWith("web", 2,
                  {MapAt("192.0.2.1", 18080), MapAt("2001:db8::1", 18081),
                   MapAt("127.0.0.1", 18082)}));
  const Server server(kWebNetns, 80, "hello");
  EXPECT_EQ(Ask("192.0.2.1", 18080), "hello");
  EXPECT_EQ(Ask("2001:db8::1", 18081), "hello");
  EXPECT_EQ(Ask("127.0.0.1", 18082), "hello");
  const std::vector<std::string> all = {
      "192.0.2.1",   "192.0.2.3",   "127.0.0.1", "10.88.0.1",
      "2001:db8::1", "2001:db8::3", "fd88::1"};
  EXPECT_EQ(AnswersAt(all, 18080), "192.0.2.1");
  EXPECT_EQ(AnswersAt(all, 18081), "2001:db8::1");
  EXPECT_EQ(AnswersAt(all, 18082), "127.0.0.1");
}

TEST_F(NetworkPorts, AnyAddressOfOneFamilyIsNoneOfTheOther) {
  Create(PlanWith("web", 2, {MapAt("0.0.0.0", 18080), MapAt("::", 18081)}));
  const Server server(kWebNetns, 80, "hello");
  const std::vector<std::string> all = {"192.0.2.1", "127.0.0.1", "10.88.0.1",
                                        "2001:db8::1", "fd88::1"};
  EXPECT_EQ(AnswersAt(all, 18080), "192.0.2.1 127.0.0.1 10.88.0.1");
  EXPECT_EQ(AnswersAt(all, 18081), "2001:db8::1 fd88::1");
}

// Returns the errno of a connection; EINPROGRESS if it is undecided in time.
int ConnectTo(const std::string& address, std::uint16_t port, int timeout_ms) {
  const UniqueFd fd(
      ::socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(port);
  ::inet_pton(AF_INET6, address.c_str(), &to.sin6_addr);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) {
    return 0;
  }
  pollfd wait{fd.get(), POLLOUT, 0};
  if (errno != EINPROGRESS || ::poll(&wait, 1, timeout_ms) != 1) {
    return errno;
  }
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

// Most clients try ::1 first for "localhost", and go on to 127.0.0.1 only once
// that is refused.
TEST_F(NetworkPorts, TheHostsLoopbackOfIpv6RefusesAtOnce) {
  Create(PlanWith("web", 2, {MapAt("", 18080), MapAt("::", 18081)}));
  const Server server(kWebNetns, 80, "hello");
  EXPECT_EQ(ConnectTo("::1", 18080, kAnswerMs), ECONNREFUSED);
  EXPECT_EQ(ConnectTo("::1", 18081, kAnswerMs), ECONNREFUSED);
  EXPECT_EQ(ConnectTo("::ffff:127.0.0.1", 18080, kAnswerMs), 0);
  EXPECT_EQ(Ask("::ffff:127.0.0.1", 18080), "hello");
  EXPECT_EQ(ConnectTo("fd88::1", 18081, kAnswerMs), 0);
  // With the naive rules no route leads on from ::1, and no error says so.
  ASSERT_TRUE(exec::RunNftCommand(
                  "flush chain inet mountd nat_out\n"
                  "add rule inet mountd nat_out fib daddr type local jump "
                  "portmap")
                  .has_value());
  EXPECT_EQ(ConnectTo("::1", 18080, kNoAnswerMs), EINPROGRESS);
}

TEST_F(NetworkPorts, DatagramsPassAsConnectionsDo) {
  Create(PlanWith("web", 2,
                  {MapAt("", 18080), MapAt("192.0.2.1", 18081),
                   MapAt("2001:db8::1", 18082)}));
  Create(Plan("db", 3, 18083));
  const Server server(kWebNetns, 80, "hello", Server::Transport::kUdp);
  for (const char* address :
       {"127.0.0.1", "192.0.2.3", "10.88.0.1", "fd88::1", "2001:db8::3"}) {
    EXPECT_EQ(AskUdp(address, 18080), "hello") << address;
  }
  EXPECT_EQ(AskUdp("192.0.2.1", 18081), "hello");
  EXPECT_EQ(AskUdp("192.0.2.3", 18081, kNoAnswerMs), "");
  EXPECT_EQ(AskUdp("2001:db8::1", 18082), "hello");
  EXPECT_EQ(TextFrom(kDbNetns, [] { return AskUdp("10.88.0.1", 18080); }),
            "hello");
}

TEST_F(NetworkPorts, ARangeLeadsEachPortAsFarIntoTheContainers) {
  PortMap range{20000, 8000, exec::kTcp, 0};
  range.count = 10;
  Create(PlanWith("web", 2, {range}));
  const Server first(kWebNetns, 8000, "first");
  const Server second(kWebNetns, 8001, "second");
  const Server last(kWebNetns, 8009, "last");
  const Server after(kWebNetns, 8010, "after");
  for (const char* address : {"127.0.0.1", "10.88.0.1", "fd88::1"}) {
    EXPECT_EQ(Ask(address, 20000), "first") << address;
    EXPECT_EQ(Ask(address, 20001), "second") << address;
    EXPECT_EQ(Ask(address, 20009), "last") << address;
    EXPECT_EQ(Ask(address, 20010, kNoAnswerMs), "") << address;
    EXPECT_EQ(Ask(address, 8000, kNoAnswerMs), "") << address;
  }
}

TEST_F(NetworkPorts, ALargePlanIsMadeWholeAndGoesWhole) {
  PortMap range{20000, 8000, exec::kAllProtocols, 0};
  range.count = 201;
  PortMap other = MapAt("2001:db8::1", 18080);
  other.count = 11;
  const NetworkPlan plan = PlanWith("web", 2, {range, other});
  Create(plan);
  EXPECT_EQ(StateOf(plan).elements_present, 1U);
  const Server last(kWebNetns, 8200, "last");
  EXPECT_EQ(Ask("127.0.0.1", 20200), "last");
  EXPECT_EQ(Ask("fd88::1", 20200), "last");
  const Inventory made = Inventory::Take();
  // Another network has one port of the plan, so nothing of the plan is made.
  PortMap last_port{20200, 80, exec::kSctp, 0};
  EXPECT_EQ(CodeOf(Do(PlanKind::kCreateNetwork,
                      PlanWith("db", 3, {MapAt("", 18082), last_port}))),
            "AlreadyExists");
  EXPECT_EQ(DifferenceWithin(made, 20), "");
  Delete(plan);
  Delete(plan);
}

// An undo removes only what its own plan made, even if the element that was
// there is the plan's own.
TEST_F(NetworkPorts, ARefusedPlanLeavesWhatWasThere) {
  const std::string element =
      " element inet mountd pm4 { tcp . 18080 : 10.88.0.2 . 80 }";
  const NetworkPlan plan = Plan("web", 2, 18080);
  ASSERT_TRUE(exec::RunNftCommand("add" + element).has_value());
  const Inventory there = Inventory::Take();
  EXPECT_EQ(CodeOf(Do(PlanKind::kCreateNetwork, plan)), "AlreadyExists");
  EXPECT_EQ(DifferenceWithin(there, 20), "");
  ASSERT_TRUE(exec::RunNftCommand("delete" + element).has_value());
  Create(plan);
  EXPECT_EQ(StateOf(plan).elements_present, 1U);
}

TEST_F(NetworkPorts, AllThatWasMadeGoes) {
  PortMap range{20000, 8000, exec::kAllProtocols, 4};
  range.count = 201;
  const NetworkPlan plan =
      PlanWith("web", 2,
               {range, MapAt("192.0.2.1", 18080), MapAt("2001:db8::1", 18080),
                MapAt("::", 18081)});
  Create(plan);
  Delete(plan);
  EXPECT_EQ(DifferenceWithin(before_, 20), "");
}

TEST_F(NetworkPorts, TwoHaveTheSamePortAtDifferentAddresses) {
  Create(PlanWith("web", 2,
                  {MapAt("192.0.2.1", 18080), MapAt("2001:db8::1", 18080)}));
  Create(PlanWith("db", 3,
                  {MapAt("192.0.2.3", 18080), MapAt("2001:db8::3", 18080)}));
  const Server web(kWebNetns, 80, "web");
  const Server db(kDbNetns, 80, "db");
  EXPECT_EQ(Ask("192.0.2.1", 18080), "web");
  EXPECT_EQ(Ask("192.0.2.3", 18080), "db");
  EXPECT_EQ(Ask("2001:db8::1", 18080), "web");
  EXPECT_EQ(Ask("2001:db8::3", 18080), "db");
  // A map of the same address belongs to one network alone, and the refusal
  // names the port.
  const exec::Reply reply =
      Do(PlanKind::kCreateNetwork,
         PlanWith("cache", 4, {MapAt("192.0.2.1", 18080)}));
  EXPECT_EQ(CodeOf(reply), "AlreadyExists");
  EXPECT_NE(ErrorOf(reply).find("18080"), std::string::npos) << ErrorOf(reply);
}

TEST_F(NetworkPorts, AnAllocationReachesItsOwnAndAnothersByTheHostsAddresses) {
  Create(PlanWith("web", 2,
                  {MapAt("", 18080), MapAt("192.0.2.1", 18081),
                   MapAt("2001:db8::1", 18081)}));
  Create(Plan("db", 3, 18082));
  const Server server(kWebNetns, 80, "hello");
  for (const char* from : {kWebNetns, kDbNetns}) {
    SCOPED_TRACE(from);
    for (const char* address : {"192.0.2.1", "192.0.2.3", "10.88.0.1",
                                "2001:db8::1", "2001:db8::3", "fd88::1"}) {
      EXPECT_EQ(AskFrom(from, address, 18080), "hello") << address;
    }
    EXPECT_EQ(AskFrom(from, "192.0.2.1", 18081), "hello");
    EXPECT_EQ(AskFrom(from, "2001:db8::1", 18081), "hello");
    EXPECT_EQ(AskFrom(from, "192.0.2.3", 18081, kNoAnswerMs), "");
  }
}

TEST_F(NetworkPorts, AnIsolatedOneIsReachedByItsPortsAlone) {
  NetworkPlan web = Plan("web", 2, 18080);
  web.flags |= exec::kIsolated;
  Create(web);
  Create(Plan("db", 3, 18081));
  NetworkPlan cache = Plan("cache", 4, 18082);
  cache.flags |= exec::kIsolated;
  Create(cache);
  const Server of_web(kWebNetns, 80, "web");
  const Server of_db(kDbNetns, 80, "db");
  for (const char* from : {kDbNetns, "/run/netns/cache"}) {
    SCOPED_TRACE(from);
    EXPECT_EQ(AskFrom(from, "10.88.0.2", 80, kNoAnswerMs), "");
    EXPECT_EQ(AskFrom(from, "fd88::2", 80, kNoAnswerMs), "");
    EXPECT_EQ(AskFrom(from, "10.88.0.1", 18080), "web");
    EXPECT_EQ(AskFrom(from, "fd88::1", 18080), "web");
  }
  EXPECT_EQ(AskFrom(kWebNetns, "10.88.0.3", 80, kNoAnswerMs), "");
  EXPECT_EQ(AskFrom(kWebNetns, "fd88::3", 80, kNoAnswerMs), "");
  EXPECT_EQ(AskFrom(kWebNetns, "10.88.0.1", 18081), "db");
  EXPECT_EQ(AskFrom(kWebNetns, "fd88::1", 18081), "db");
  // The host itself is no allocation, so isolation does not apply to it.
  EXPECT_EQ(Ask("10.88.0.2", 80), "web");
  const Server of_host(kHostNetns, 7000, "host");
  EXPECT_EQ(AskFrom(kWebNetns, "10.88.0.1", 7000), "host");
}

TEST_F(NetworkPorts, WithoutTheDefaultRouteOnlyTheNetworkIsReached) {
  NetworkPlan web = Plan("web", 2, 18080);
  web.flags = 0;
  Create(web);
  Create(Plan("db", 3, 18081));
  const Server host(kHostNetns, 7000, "host");
  const Server db(kDbNetns, 80, "db");
  EXPECT_EQ(AskFrom(kWebNetns, "10.88.0.1", 7000), "host");
  EXPECT_EQ(AskFrom(kWebNetns, "fd88::1", 7000), "host");
  EXPECT_EQ(AskFrom(kWebNetns, "10.88.0.3", 80), "db");
  EXPECT_EQ(AskFrom(kWebNetns, "192.0.2.1", 7000, kNoAnswerMs), "");
  EXPECT_EQ(AskFrom(kWebNetns, "2001:db8::1", 7000, kNoAnswerMs), "");
  // The port answers every client for whom the host translates the source.
  const Server server(kWebNetns, 80, "web");
  for (const char* address :
       {"127.0.0.1", "192.0.2.1", "fd88::1", "2001:db8::1"}) {
    EXPECT_EQ(Ask(address, 18080), "web") << address;
    if (std::string(address) != "127.0.0.1") {
      EXPECT_EQ(AskFrom(kDbNetns, address, 18080), "web") << address;
    }
  }
}

// A machine beside the host, which has routes to the allocations through it.
class NetworkOutside : public NetworkPorts {
 protected:
  void SetUp() override {
    Networks::SetUp();
    if (IsSkipped()) {
      return;
    }
    config_.networks["default"].no_masquerade4 = {
        netns::ParseIpv4Range("203.0.113.0/24").value()};
    config_.networks["default"].no_masquerade6 = {
        netns::ParseIpv6Range("2001:db8:1::/64").value()};
    ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
    for (const char* command :
         {"netns add outside", "link add up0 type veth peer up0 netns outside",
          "link set up0 up", "addr add 192.0.2.1/24 dev up0",
          "addr add 2001:db8::1/64 dev up0 nodad",
          "route add 203.0.113.0/24 via 192.0.2.2",
          "route add 2001:db8:1::/64 via 2001:db8::2",
          "-n outside link set lo up", "-n outside link set up0 up",
          "-n outside addr add 192.0.2.2/24 dev up0",
          "-n outside addr add 2001:db8::2/64 dev up0 nodad",
          "-n outside addr add 203.0.113.2/32 dev lo",
          "-n outside addr add 2001:db8:1::2/128 dev lo",
          "-n outside route add 10.88.0.0/16 via 192.0.2.1",
          "-n outside route add fd88::/64 via 2001:db8::1"}) {
      Shell(std::string("ip ") + command);
    }
  }
};

TEST_F(NetworkOutside, ReachesPortsAndNothingElse) {
  Create(PlanWith("web", 2,
                  {MapAt("", 18080), MapAt("192.0.2.1", 18081),
                   MapAt("10.88.0.1", 18082)}));
  const Server server(kWebNetns, 80, "hello");
  EXPECT_EQ(AskFrom(kOutsideNetns, "192.0.2.1", 18080), "hello");
  EXPECT_EQ(AskFrom(kOutsideNetns, "2001:db8::1", 18080), "hello");
  EXPECT_EQ(AskFrom(kOutsideNetns, "192.0.2.1", 18081), "hello");
  EXPECT_EQ(AskFrom(kOutsideNetns, "192.0.2.1", 18082, kNoAnswerMs), "");
  EXPECT_EQ(AskFrom(kOutsideNetns, "10.88.0.2", 80, kNoAnswerMs), "");
  EXPECT_EQ(AskFrom(kOutsideNetns, "fd88::2", 80, kNoAnswerMs), "");
}

TEST_F(NetworkOutside, IsSeenByItsOwnAddress) {
  Create(Plan("web", 2, 18080));
  const Server server(kWebNetns, 80, "");
  EXPECT_EQ(AskFrom(kOutsideNetns, "192.0.2.1", 18080), "192.0.2.2");
  EXPECT_EQ(AskFrom(kOutsideNetns, "2001:db8::1", 18080), "2001:db8::2");
}

TEST_F(NetworkOutside, SeesTheHostsAddressUnlessItIsExcluded) {
  Create(Plan("web", 2, 18080));
  const Server server(kOutsideNetns, 7000, "");
  EXPECT_EQ(AskFrom(kWebNetns, "192.0.2.2", 7000), "192.0.2.1");
  EXPECT_EQ(AskFrom(kWebNetns, "2001:db8::2", 7000), "2001:db8::1");
  EXPECT_EQ(AskFrom(kWebNetns, "203.0.113.2", 7000), "10.88.0.2");
  EXPECT_EQ(AskFrom(kWebNetns, "2001:db8:1::2", 7000), "fd88::2");
}

TEST_F(NetworkOutside, KeepsItsPortsThatHaveAMappedOnesNumber) {
  Create(PlanWith("web", 2, {MapAt("", 18080)}));
  Create(Plan("db", 3, 18081));
  const Server web(kWebNetns, 80, "web");
  const Server outside(kOutsideNetns, 18080, "outside");
  for (const char* address :
       {"192.0.2.2", "203.0.113.2", "2001:db8::2", "2001:db8:1::2"}) {
    EXPECT_EQ(AskFrom(kDbNetns, address, 18080), "outside") << address;
    EXPECT_EQ(AskFrom(kWebNetns, address, 18080), "outside") << address;
    EXPECT_EQ(Ask(address, 18080), "outside") << address;
  }
  EXPECT_EQ(AskFrom(kDbNetns, "192.0.2.1", 18080), "web");
  // A rule that matches the port alone takes connections to another machine.
  ASSERT_TRUE(exec::RunNftCommand(
                  "flush chain inet mountd nat_pre; add rule inet mountd "
                  "nat_pre meta l4proto { tcp, udp, sctp } jump portmap")
                  .has_value());
  EXPECT_NAIVE(AskFrom(kDbNetns, "192.0.2.2", 18080) == "web");
}

TEST_F(NetworkOutside, IsKeptOutByTheOperatorsRules) {
  Create(Plan("web", 2, 18080));
  const Server server(kWebNetns, 80, "hello");
  ASSERT_EQ(AskFrom(kOutsideNetns, "192.0.2.1", 18080), "hello");
  ASSERT_TRUE(
      exec::RunNftCommand("add rule inet mountd admin ip saddr 192.0.2.2 drop")
          .has_value());
  EXPECT_EQ(AskFrom(kOutsideNetns, "192.0.2.1", 18080, kNoAnswerMs), "");
  EXPECT_EQ(AskFrom(kOutsideNetns, "2001:db8::1", 18080), "hello");
}

}  // namespace
}  // namespace mountd::testing
