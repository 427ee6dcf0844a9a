// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Attacks by packets, from root in an allocation's network namespace and from a
// machine beside the host. Each attack fails against the host as mountd has set
// it up. It succeeds in the same test against a host without the rule that
// stops it, which shows that the test could fail.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <string_view>
#include <vector>

#include "mountd/kernel/nft_command.h"
#include "tests/root/networks/frames.h"
#include "tests/root/networks/network_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/naive.h"
#include "tests/support/net_probe.h"

namespace mountd::testing {
namespace {

using exec::NetworkPlan;
using exec::PortMap;
using netns::kGatewayMac;

// The MAC address of the host's link to its neighbour.
constexpr Mac kUplinkMac = {2, 0, 0, 0, 0, 0x0a};

void Nft(const std::string& commands) {
  ASSERT_TRUE(exec::RunNftCommand(commands).has_value()) << commands;
}

// Removes the host's rules that bind allocations to their addresses.
void TakeGuardAway() { Nft("flush chain inet mountd guard"); }

std::string TextOf(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class NetworkAttacks : public Networks {
 protected:
  void SetUp() override {
    Networks::SetUp();
    if (IsSkipped()) {
      return;
    }
    BelieveEverything();
    Create(Plan("web", 2, 18080));
    Create(Plan("db", 3, 18081));
    AddNeighbour();
  }

  // Turns off all checks of the kernel that can be turned off.
  static void BelieveEverything() {
    for (const char* setting :
         {"ipv4/conf/all/rp_filter=0", "ipv4/conf/default/rp_filter=0",
          "ipv4/conf/all/accept_local=1", "ipv4/conf/all/arp_accept=1",
          "ipv4/conf/default/arp_accept=1", "ipv6/conf/default/accept_ra=2"}) {
      Set(setting);
    }
  }
  static void Set(const std::string& setting) {
    const std::size_t equals = setting.find('=');
    std::ofstream file("/proc/sys/net/" + setting.substr(0, equals));
    file << setting.substr(equals + 1) << std::flush;
    ASSERT_TRUE(file.good()) << setting;
  }
  // Connects the host to a neighbour that uses the host as its router.
  static void AddNeighbour() {
    for (const char* command :
         {"netns add outside",
          "link add up0 address 02:00:00:00:00:0a type veth peer up0 netns "
          "outside",
          "link set up0 up", "addr add 192.0.2.1/24 dev up0",
          "addr add 2001:db8::1/64 dev up0 nodad", "-n outside link set up0 up",
          "-n outside link set lo up",
          "-n outside addr add 192.0.2.2/24 dev up0",
          "-n outside addr add 2001:db8::2/64 dev up0 nodad",
          "-n outside route add default via 192.0.2.1",
          "-n outside route add default via 2001:db8::1"}) {
      Shell(std::string("ip ") + command);
    }
  }

  // Returns the link header of a frame from the attacker to the host.
  static LinkHeader ToHost() {
    return {netns::LinkMac({10, 88, 0, 2}), kGatewayMac};
  }
  static void Send(const std::vector<Frame>& frames) {
    SendFrames(kWebNetns, "eth0", frames);
  }
};

// A datagram's destination, and the sources that the attacker forges.
struct Spoofed {
  const char* netns;
  const char* address;
  std::vector<std::string> sources;
};

class SpoofedSource : public NetworkAttacks {
 protected:
  static constexpr std::uint16_t kPort = 7000;

  static Frame From(const std::string& source, const std::string& to) {
    return UdpFrame(ToHost(), source, to, kPort);
  }
  // Returns the first source that the listener hears, "" if it hears none.
  static std::string HeardOfAny(const Spoofed& spoofed) {
    Listener listener(spoofed.netns, spoofed.address, kPort);
    std::vector<Frame> frames;
    for (const std::string& source : spoofed.sources) {
      frames.push_back(From(source, spoofed.address));
    }
    Send(frames);
    return listener.Hear(kNoAnswerMs);
  }
  static void ExpectEachHeard(const Spoofed& spoofed) {
    Listener listener(spoofed.netns, spoofed.address, kPort);
    for (const std::string& source : spoofed.sources) {
      Send({From(source, spoofed.address)});
      EXPECT_NAIVE(!listener.Hear().empty())
          << source << " to " << spoofed.address;
    }
  }
  static void ExpectOnlyTheGuardStops(const std::vector<Spoofed>& all) {
    for (const Spoofed& spoofed : all) {
      EXPECT_EQ(HeardOfAny(spoofed), "") << spoofed.address;
    }
    TakeGuardAway();
    for (const Spoofed& spoofed : all) {
      ExpectEachHeard(spoofed);
    }
  }
};

// The forged sources are addresses of another allocation, of the host in the
// network, beside it and on its loopback, of nobody, and of an outside machine.
TEST_F(SpoofedSource, OfAnybodyElseGoesNowhere) {
  ExpectOnlyTheGuardStops(
      {{kHostNetns,
        "10.88.0.1",
        {"10.88.0.3", "10.88.0.1", "192.0.2.1", "127.0.0.1", "10.88.7.7",
         "198.51.100.1"}},
       {kDbNetns,
        "10.88.0.3",
        {"10.88.0.1", "192.0.2.1", "10.88.7.7", "198.51.100.1"}},
       {kOutsideNetns,
        "192.0.2.2",
        {"10.88.0.3", "192.0.2.1", "10.88.7.7", "198.51.100.1"}}});
}

TEST_F(SpoofedSource, OfAnybodyElseGoesNowhereInIpv6) {
  const std::vector<std::string> sources = {"fd88::1", "2001:db8::1",
                                            "fd88::7:7", "2001:db8:9::1"};
  ExpectOnlyTheGuardStops({{kHostNetns, "fd88::1", {"fd88::3"}},
                           {kHostNetns, "fd88::1", sources},
                           {kDbNetns, "fd88::3", sources},
                           {kOutsideNetns, "2001:db8::2", sources}});
}

TEST_F(SpoofedSource, IsSeenInATaggedFrame) {
  Listener listener(kHostNetns, "10.88.0.1", kPort);
  Send({Tagged(From("10.88.0.2", "10.88.0.1"))});
  EXPECT_EQ(listener.Hear(), "10.88.0.2");
  const Frame spoofed = Tagged(From("10.88.0.3", "10.88.0.1"));
  Send({spoofed});
  EXPECT_EQ(listener.Hear(kNoAnswerMs), "");
  TakeGuardAway();
  Send({spoofed});
  EXPECT_NAIVE(listener.Hear() == "10.88.0.3");
}

// A naive bridge of allocations, which believes every announcement on it.
class BridgeAttacks : public NetworkAttacks {
 protected:
  void SetUp() override {
    NetworkAttacks::SetUp();
    if (IsSkipped()) {
      return;
    }
    for (const char* command : {"link add br0 type bridge", "link set br0 up",
                                "addr add 10.77.0.1/24 dev br0",
                                "addr add fd77::1/64 dev br0 nodad"}) {
      Shell(std::string("ip ") + command);
    }
    AddPort("naive-web", "2");
    AddPort("naive-db", "3");
    // The bridge believes a changed neighbour at once, not after a second.
    Set("ipv4/neigh/br0/locktime=0");
    for (const char* name : {"web", "naive-web", "db", "naive-db"}) {
      servers_.push_back(std::make_unique<Server>(
          std::string("/run/netns/") + name, 80,
          std::string_view(name).ends_with("web") ? "attacker" : "victim"));
    }
  }

  static void AddPort(const std::string& name, const std::string& host) {
    const std::string port = "port" + host;
    const std::string inside = "ip -n " + name + " ";
    for (const std::string& command :
         {"ip netns add " + name,
          "ip link add " + port + " type veth peer eth0 netns " + name,
          "ip link set " + port + " master br0 up",
          inside + "link set eth0 address 02:00:00:00:00:0" + host,
          inside + "link set eth0 up",
          inside + "addr add 10.77.0." + host + "/24 dev eth0",
          inside + "addr add fd77::" + host + "/64 dev eth0 nodad"}) {
      Shell(command);
    }
  }
  // Makes the attackers answer to the victims' addresses if they get such
  // packets. The host knows the victims' MAC addresses by then.
  static void TakeAddresses() {
    for (const char* address : {"10.77.0.3", "fd77::3"}) {
      ASSERT_TRUE(Eventually([&] {
        return Ask(address, 80, kNoAnswerMs) == "victim";
      })) << address;
    }
    for (const char* command :
         {"-n web addr add 10.88.0.3/32 dev eth0",
          "-n web addr add fd88::3/128 dev eth0 nodad",
          "-n naive-web addr add 10.77.0.3/32 dev eth0",
          "-n naive-web addr add fd77::3/128 dev eth0 nodad"}) {
      Shell(std::string("ip ") + command);
    }
  }

  // The frames take the victim's packets where nothing checks them, until the
  // victim happens to send a packet itself. The attack therefore repeats.
  static void ExpectTakenByNaive(const std::vector<Frame>& frames) {
    for (const char* address : {"10.77.0.3", "fd77::3"}) {
      EXPECT_NAIVE(Eventually([&] {
        SendFrames("/run/netns/naive-web", "eth0", frames);
        return Ask(address, 80, kNoAnswerMs) == "attacker";
      })) << address;
    }
  }

  static constexpr Mac kBroadcast = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  std::vector<std::unique_ptr<Server>> servers_;
};

TEST_F(BridgeAttacks, AnotherLinkAddressTakesNobodysPackets) {
  TakeAddresses();
  Shell("ip -n web link set eth0 address 02:4d:0a:58:00:03");
  SendFrames("/run/netns/web", "eth0",
             {UdpFrame({netns::LinkMac({10, 88, 0, 3}), kGatewayMac},
                       "10.88.0.2", "10.88.0.1", 7000)});
  EXPECT_EQ(Ask("10.88.0.3", 80), "victim");
  EXPECT_EQ(Ask("fd88::3", 80), "victim");
  Shell("ip -n naive-web link set eth0 address 02:00:00:00:00:03");
  ExpectTakenByNaive({UdpFrame({{2, 0, 0, 0, 0, 3}, kBroadcast}, "10.77.0.2",
                               "10.77.0.1", 7000)});
}

TEST_F(BridgeAttacks, AnswersForAnothersAddressAreNotBelieved) {
  TakeAddresses();
  Send({ArpAnswer(ToHost(), "10.88.0.3", "10.88.0.1"),
        NeighbourAnswer(ToHost(), "fd88::3", "fd88::1")});
  EXPECT_EQ(Ask("10.88.0.3", 80), "victim");
  EXPECT_EQ(Ask("fd88::3", 80), "victim");
  const LinkHeader naive{{2, 0, 0, 0, 0, 2}, kBroadcast};
  ExpectTakenByNaive({ArpAnswer(naive, "10.77.0.3", "10.77.0.1"),
                      NeighbourAnswer(naive, "fd77::3", "fd77::1")});
}

// The whole machine has one neighbour table, which is full at
// net.ipv4.neigh.default.gc_thresh3. The host then reaches no new neighbour.
TEST_F(NetworkAttacks, QuestionsDoNotFillTheHostsTableOfNeighbours) {
  constexpr std::ptrdiff_t kQuestions = 100;
  const auto ask = [] {
    std::vector<Frame> frames;
    for (int i = 1; i <= kQuestions; ++i) {
      frames.push_back(
          ArpQuestion(ToHost(), "10.88.1." + std::to_string(i), "10.88.0.1"));
    }
    Send(frames);
  };
  const auto count = [] {
    const std::string text = TextOf("/proc/net/arp");
    return std::count(text.begin(), text.end(), '\n');
  };
  const auto before = count();
  ask();
  EXPECT_EQ(count(), before);
  Shell("ip link set md0a580002 arp on");
  ask();
  EXPECT_NAIVE(count() >= kQuestions);
}

TEST_F(NetworkAttacks, TheHostHasNoRouterInAnAllocation) {
  const auto seen = [] {
    return TextOf("/proc/net/ipv6_route") + TextOf("/proc/net/if_inet6");
  };
  const Frame frame =
      RouterAdvertisement(ToHost(), "fe80::bad", "2001:db8:bad::");
  const std::string prefix = "20010db80bad0000";
  Send({frame});
  EXPECT_EQ(seen().find(prefix), std::string::npos);
  EXPECT_EQ(seen().find("fe800000000000000000000000000bad"), std::string::npos);
  TakeGuardAway();
  Send({frame});
  EXPECT_NAIVE(Eventually([&] {
    return seen().find(prefix) != std::string::npos &&
           seen().find("fe800000000000000000000000000bad") != std::string::npos;
  })) << seen();
}

// CVE-2020-8558: a container reached services on the host's 127.0.0.1.
TEST_F(NetworkAttacks, ServicesOfTheHostsLoopbackAreNotReachedFromInside) {
  const Server service(kHostNetns, 7000, "secret", Server::Transport::kTcp,
                       "::ffff:127.0.0.1");
  const Server service6(kHostNetns, 7001, "secret", Server::Transport::kTcp,
                        "::1");
  Listener datagrams(kHostNetns, "127.0.0.1", 7000);
  ASSERT_EQ(Ask("127.0.0.1", 7000), "secret");
  ASSERT_EQ(Ask("::1", 7001), "secret");
  // The attacker moves its own loopback away, so that 127.0.0.1 leads to the
  // host.
  for (const char* command :
       {"-n web addr flush dev lo", "-n web route flush table local dev lo",
        "-n web route add 127.0.0.1/32 via 169.254.1.1 dev eth0 onlink src "
        "10.88.0.2"}) {
    Shell(std::string("ip ") + command);
  }
  TextFrom(kWebNetns, [] {
    Set("ipv4/conf/all/route_localnet=1");
    return std::string();
  });
  const auto reached = [](int timeout_ms) {
    return AskFrom(kWebNetns, "127.0.0.1", 7000, timeout_ms);
  };
  EXPECT_EQ(reached(kNoAnswerMs), "");
  Send({UdpFrame(ToHost(), "10.88.0.2", "127.0.0.1", 7000),
        UdpFrame(ToHost(), "127.0.0.1", "127.0.0.1", 7000)});
  EXPECT_EQ(datagrams.Hear(kNoAnswerMs), "");
  // Neither another address of the host nor the attacker's own port map leads
  // to the service.
  for (const char* address : {"10.88.0.1", "192.0.2.1"}) {
    EXPECT_EQ(AskFrom(kWebNetns, address, 7000, kNoAnswerMs), "") << address;
  }
  for (const char* address : {"fd88::1", "2001:db8::1"}) {
    EXPECT_EQ(AskFrom(kWebNetns, address, 7001, kNoAnswerMs), "") << address;
  }
  EXPECT_EQ(AskFrom(kWebNetns, "127.0.0.1", 18080, kNoAnswerMs), "");
  TakeGuardAway();
  EXPECT_NAIVE(reached(kAnswerMs) == "secret");
  Send({UdpFrame(ToHost(), "10.88.0.2", "127.0.0.1", 7000)});
  EXPECT_EQ(datagrams.Hear(), "10.88.0.2");
}

class PortMapAttacks : public NetworkAttacks {
 protected:
  // Returns a port map at one address of the host.
  static PortMap MapAt(const std::string& address, std::uint16_t port) {
    const netns::HostIp ip = netns::ParseHostIp(address).value();
    PortMap map{port, 80, exec::kTcp | exec::kUdp, 0};
    map.host_family = static_cast<std::uint8_t>(ip.family);
    map.host_address = ip.bytes;
    return map;
  }
  void CreateCacheWith(const PortMap& map) {
    NetworkPlan plan = Plan("cache", 4, 0);
    plan.ports[0] = map;
    Create(plan);
  }
};

// A rule that matches the port alone also takes packets that only pass through
// the host (CVE-2025-67499).
TEST_F(PortMapAttacks, WhatPassesThroughIsNotTaken) {
  const Server web(kWebNetns, 80, "attacker");
  const Server outside(kOutsideNetns, 18080, "outside");
  const auto answers = [] {
    return AskFrom(kDbNetns, "192.0.2.2", 18080) + " " +
           AskFrom(kDbNetns, "2001:db8::2", 18080);
  };
  EXPECT_EQ(answers(), "outside outside");
  Nft("flush chain inet mountd nat_pre; add rule inet mountd nat_pre "
      "meta l4proto { tcp, udp, sctp } jump portmap");
  EXPECT_NAIVE(answers() == "attacker attacker");
}

TEST_F(PortMapAttacks, OneOfAnAddressIsNoneOfAnother) {
  CreateCacheWith(MapAt("192.0.2.1", 18085));
  Shell("ip addr add 192.0.2.3/24 dev up0");
  const Server server("/run/netns/cache", 80, "hello");
  EXPECT_EQ(AskFrom(kOutsideNetns, "192.0.2.1", 18085), "hello");
  EXPECT_EQ(AskFrom(kOutsideNetns, "192.0.2.3", 18085, kNoAnswerMs), "");
  Nft("add element inet mountd pm4 { tcp . 18085 : 10.88.0.4 . 80 }");
  EXPECT_NAIVE(AskFrom(kOutsideNetns, "192.0.2.3", 18085) == "hello");
}

// The kernel refuses packets from outside to 127/8 only where it routes them. A
// port map has changed the destination before that.
TEST_F(PortMapAttacks, OneOfTheHostsLoopbackIsNotReachedFromBeside) {
  CreateCacheWith(MapAt("127.0.0.1", 18085));
  Listener listener("/run/netns/cache", "10.88.0.4", 80);
  const Frame frame = UdpFrame({{2, 0, 0, 0, 0, 9}, kUplinkMac}, "192.0.2.2",
                               "127.0.0.1", 18085);
  SendFrames(kOutsideNetns, "up0", {frame});
  EXPECT_EQ(listener.Hear(kNoAnswerMs), "");
  EXPECT_EQ(TextFrom(kHostNetns, [] { return AskUdp("127.0.0.1", 18085, 1); }),
            "");
  EXPECT_EQ(listener.Hear(), "10.88.0.1") << "the host itself reaches it";
  Nft("flush chain inet mountd nat_pre; add rule inet mountd nat_pre "
      "meta l4proto { tcp, udp, sctp } fib daddr type local jump portmap");
  SendFrames(kOutsideNetns, "up0", {frame});
  EXPECT_NAIVE(listener.Hear() == "192.0.2.2");
}

}  // namespace
}  // namespace mountd::testing
