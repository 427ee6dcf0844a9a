// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Networks of an unprivileged agent on a whole mountd: each mode, what survives
// a SIGKILL of each process, and how mountd repairs parts that other programs
// remove.
#include <net/if.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <map>

#include "mountd/kernel/nft_command.h"
#include "tests/root/node/node_network_fixture.h"
#include "tests/support/held_namespace.h"
#include "tests/support/net_probe.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using agent::NetworkSpec;
using agent::NetworkStatus;
using Lines = std::vector<std::string>;

NetworkSpec Bridge(std::uint16_t host_port = 0,
                   const std::string& host_address = "") {
  NetworkSpec spec;
  if (host_port != 0) {
    spec.ports.push_back({.label = "http",
                          .host = host_port,
                          .container = 80,
                          .host_address = host_address});
  }
  return spec;
}
NetworkSpec On(const std::string& interface) {
  NetworkSpec spec;
  spec.interface = interface;
  return spec;
}
NetworkSpec Mode(const std::string& mode, int netns = -1) {
  NetworkSpec spec;
  spec.mode = mode;
  spec.netns = netns;
  return spec;
}

int HasOnlyLoopback() {
  return ::if_nametoindex("lo") == 1 && ::if_nametoindex("eth0") == 0 ? 0 : 1;
}
int HasEth0() { return ::if_nametoindex("eth0") != 0 ? 0 : 1; }
int HasBoth() {
  return ::if_nametoindex("eth0") != 0 && ::if_nametoindex("eth1") != 0 ? 0 : 1;
}
int HasEth1Alone() {
  return ::if_nametoindex("eth0") == 0 && ::if_nametoindex("eth1") != 0 ? 0 : 1;
}

bool HasLink(const std::string& name) {
  return ::if_nametoindex(name.c_str()) != 0;
}

void ListenOnHost(UniqueFd* socket, std::uint16_t port) {
  socket->reset(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(port);
  ASSERT_EQ(::bind(socket->get(), reinterpret_cast<const sockaddr*>(&any),
                   sizeof(any)),
            0);
  ASSERT_EQ(::listen(socket->get(), 1), 0);
}

class NodeNetworks : public NodeNetworkFixture {
 protected:
  void SetUp() override {
    NodeNetworkFixture::SetUp();
    if (!IsSkipped() && !HasFatalFailure()) {
      before_ = Inventory::Take();
    }
  }

  // Sets up a network of each mode; the caller passes the namespace of mode
  // "driver".
  void SetUpAllModes(int netns) {
    SetUpNetwork("none", Mode("none"));
    NetworkSpec host = Mode("host");
    host.ports = {{.label = "a", .host = 20001}};
    SetUpNetwork("host", host);
    SetUpNetwork("web", Bridge(20080));
    NetworkSpec second = On("eth1");
    second.network = "small";
    second.isolated = true;
    second.ports = {{.label = "range",
                     .host = 20100,
                     .container = 8100,
                     .protocols = "tcp+udp",
                     .count = 5,
                     .host_address = "127.0.0.1"}};
    SetUpNetwork("web", second);
    SetUpNetwork("driver", Mode("driver", netns));
    SetUpNetwork("driver", Bridge(20082));
  }
  std::map<std::string, Lines> AllTexts() {
    std::map<std::string, Lines> all;
    for (const char* id : {"none", "host", "web", "driver"}) {
      all[id] = TextsOf(id);
    }
    return all;
  }
  // Releases all allocations, and expects that nothing is left.
  void ReleaseAll() {
    const auto all = client_->ListAllocations();
    ASSERT_EQ(MessageOf(all), "Ok");
    for (const agent::AllocationEntry& entry : *all) {
      Release(entry.id);
    }
    EXPECT_TRUE(AllAddressesAreFree());
    EXPECT_EQ(NetworkDifference(before_), "");
    const auto owed = client_->ListOwed();
    EXPECT_TRUE(owed && owed->empty());
  }
  // Waits until the line has come.
  bool Hears(const std::string& line) {
    return Eventually([&] {
      const Lines lines = told_.All();
      return std::find(lines.begin(), lines.end(), line) != lines.end();
    });
  }
  // Does the damage while mountd is stopped, so that mountd cannot react before
  // its restart.
  void WhileMountdIsAway(const std::function<void()>& damage) {
    const auto mountd = Node::Processes("mountd");
    for (const UniqueFd& process : mountd) {
      ::syscall(SYS_pidfd_send_signal, process.get(), SIGSTOP, nullptr, 0);
    }
    damage();
    Kill("mountd");
  }
  static bool Answers(std::uint16_t port) {
    return Eventually([&] { return Ask("127.0.0.1", port, 500) == "hello"; });
  }

  Inventory before_;
};

// ---- Modes ----

TEST_F(NodeNetworks, NoneIsANamespaceWithItsLoopback) {
  const NetworkStatus made = SetUpNetwork("web", Mode("none"));
  EXPECT_EQ(made.mode, "none");
  EXPECT_EQ(made.netns_path, "/run/netns/web");
  EXPECT_NE(made.netns_inode, 0U);
  EXPECT_EQ(made.address + made.address6 + made.host_interface, "");
  EXPECT_EQ(RunInNetns(made.netns_path, HasOnlyLoopback), 0);
  {
    const Server server(made.netns_path, 80, "hello");
    EXPECT_EQ(RunInNetns(made.netns_path,
                         [] { return Ask("::1", 80) == "hello" ? 0 : 1; }),
              0);
  }
  EXPECT_EQ(Outcome(client_->SetupNetwork("web", Mode("host"))),
            "FailedPrecondition");
  ReleaseAll();
}

TEST_F(NodeNetworks, HostKeepsItsPortsAndMakesNothing) {
  NetworkSpec spec = Mode("host");
  spec.ports = {{.label = "a", .host = 20001, .count = 10}};
  const NetworkStatus made = SetUpNetwork("web", spec);
  EXPECT_EQ(made.mode, "host");
  EXPECT_EQ(made.netns_path, "");
  Prepare("db");
  EXPECT_EQ(Outcome(client_->SetupNetwork("db", Bridge(20010))),
            "AlreadyExists");
  EXPECT_EQ(Outcome(client_->SetupNetwork("db", Bridge(20011))), "Ok");
  EXPECT_FALSE(fs::exists("/run/netns/web"));
  ASSERT_EQ(Outcome(client_->TeardownNetwork("web")), "Ok");
  ASSERT_EQ(Outcome(client_->TeardownNetwork("db")), "Ok");
  EXPECT_EQ(Outcome(client_->SetupNetwork("db", Bridge(20010))), "Ok");
  ReleaseAll();
}

TEST_F(NodeNetworks, ABridgeIsReachedOnItsAddressesAndPorts) {
  NetworkSpec spec = Bridge(20080);
  spec.ports.push_back({.label = "range",
                        .host = 20100,
                        .container = 8100,
                        .count = 3,
                        .host_address = "127.0.0.1"});
  const NetworkStatus made = SetUpNetwork("web", spec);
  EXPECT_EQ(made.interface, "eth0");
  EXPECT_TRUE(made.default_route);
  {
    const Server server(made.netns_path, 80, "hello");
    const Server ranged(made.netns_path, 8102, "ranged");
    EXPECT_EQ(Ask(made.address, 80), "hello");
    EXPECT_EQ(Ask(made.address6, 80), "hello");
    EXPECT_EQ(Ask("127.0.0.1", 20080), "hello");
    EXPECT_EQ(Ask("fd88::1", 20080), "hello");
    EXPECT_EQ(Ask("127.0.0.1", 20102), "ranged");
    EXPECT_EQ(Ask("10.88.0.1", 20102, 500), "") << "another address";
  }
  ReleaseAll();
}

// The agent itself made the namespace, without privilege.
TEST_F(NodeNetworks, ABridgeGoesIntoADriversOwnNamespaceAndLeavesIt) {
  const HeldNamespace held(kAgentUid);
  ASSERT_TRUE(held.valid());
  const NetworkStatus driver = SetUpNetwork("web", Mode("driver", held.fd()));
  EXPECT_EQ(driver.netns_path, "/run/netns/web");
  EXPECT_EQ(RunInNetns(held.path(), HasEth0), 1);
  const NetworkStatus made = SetUpNetwork("web", Bridge(20080));
  EXPECT_EQ(made.netns_inode, driver.netns_inode);
  EXPECT_EQ(RunInNetns(held.path(), HasEth0), 0);
  {
    const Server server(held.path(), 80, "hello");
    EXPECT_EQ(Ask("127.0.0.1", 20080), "hello");
  }
  EXPECT_EQ(Outcome(client_->TeardownNetwork("web", "lo")),
            "FailedPrecondition");
  ASSERT_EQ(Outcome(client_->TeardownNetwork("web", "eth0")), "Ok");
  EXPECT_EQ(RunInNetns(held.path(), HasEth0), 1);
  SetUpNetwork("web", Bridge(20080));
  ReleaseAll();
  EXPECT_EQ(RunInNetns(held.path(), HasEth0), 1);
  EXPECT_EQ(RunInNetns(held.path(), [] { return 0; }), 0) << "it is there";
}

TEST_F(NodeNetworks, NamespacesThatAreNotTheCallersAreRefused) {
  const HeldNamespace own(kAgentUid);
  const HeldNamespace others(kAgentUid + 1);
  ASSERT_TRUE(own.valid() && others.valid());
  const UniqueFd hosts(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  const UniqueFd no_netns(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  Prepare("web");
  Prepare("db");
  const auto outcome = [&](const std::string& id, int fd) {
    return Outcome(client_->SetupNetwork(id, Mode("driver", fd)));
  };
  EXPECT_EQ(outcome("web", -1), "InvalidArgument");
  EXPECT_EQ(outcome("web", no_netns.get()), "InvalidArgument");
  EXPECT_EQ(outcome("web", hosts.get()), "PermissionDenied");
  EXPECT_EQ(outcome("web", others.fd()), "PermissionDenied");
  EXPECT_FALSE(fs::exists("/run/netns/web"));
  EXPECT_EQ(outcome("web", own.fd()), "Ok");
  EXPECT_EQ(outcome("db", own.fd()), "PermissionDenied");
  ReleaseAll();
}

TEST_F(NodeNetworks, SeveralInterfacesGoOneByOneOrTogether) {
  const NetworkStatus first = SetUpNetwork("web", Bridge(20080));
  NetworkSpec spec = On("eth1");
  spec.network = "small";
  const NetworkStatus second = SetUpNetwork("web", spec);
  EXPECT_EQ(second.netns_inode, first.netns_inode);
  EXPECT_FALSE(second.default_route);
  EXPECT_EQ(RunInNetns("/run/netns/web", HasBoth), 0);
  ASSERT_EQ(Outcome(client_->TeardownNetwork("web", "eth0")), "Ok");
  EXPECT_EQ(RunInNetns("/run/netns/web", HasEth1Alone), 0);
  EXPECT_EQ(TextsOf("web"), Lines{TextOf(second)});
  EXPECT_FALSE(HasLink(first.host_interface));
  {
    const Server server("/run/netns/web", 80, "hello");
    EXPECT_EQ(Ask(second.address, 80), "hello");
  }
  SetUpNetwork("web", Bridge(20080));
  ASSERT_EQ(Outcome(client_->TeardownNetwork("web")), "Ok");
  EXPECT_TRUE(NetworksOf("web").empty());
  EXPECT_FALSE(fs::exists("/run/netns/web"));
  EXPECT_EQ(Outcome(client_->TeardownNetwork("web")), "Ok");
  EXPECT_EQ(Outcome(client_->TeardownNetwork("web", "eth0")), "Ok");
  ReleaseAll();
}

// A route of the second interface to the same network would take the first
// one's answers.
TEST_F(NodeNetworks, ASecondInterfaceIsOfAnotherNetwork) {
  SetUpNetwork("web", Bridge(20080));
  NetworkSpec spec = Bridge(20081);
  spec.interface = "eth1";
  EXPECT_EQ(Outcome(client_->SetupNetwork("web", spec)), "FailedPrecondition");
  EXPECT_EQ(TextsOf("web").size(), 1U);
}

TEST_F(NodeNetworks, TwoInterfacesOfTwoNetworksAreBothReached) {
  const NetworkStatus first = SetUpNetwork("web", Bridge(20080));
  NetworkSpec spec = Bridge(20081);
  spec.interface = "eth1";
  spec.network = "small";
  const NetworkStatus second = SetUpNetwork("web", spec);
  {
    const Server server("/run/netns/web", 80, "hello");
    EXPECT_EQ(Ask(second.address, 80), "hello");
    EXPECT_EQ(Ask(first.address, 80), "hello");
    EXPECT_EQ(Ask("127.0.0.1", 20080), "hello");
    EXPECT_EQ(Ask("127.0.0.1", 20081), "hello");
  }
  ReleaseAll();
}

// ---- Kills and restarts ----

TEST_F(NodeNetworks, AllIsTheSameAfterAnySigkill) {
  const HeldNamespace held(kAgentUid);
  ASSERT_TRUE(held.valid());
  SetUpAllModes(held.fd());
  const auto texts = AllTexts();
  EXPECT_EQ(texts.at("web").size(), 2U);
  EXPECT_EQ(texts.at("driver").size(), 2U);
  const Server web("/run/netns/web", 80, "hello");
  for (const char* process : {"mountd", "mountd-exec", "mountd"}) {
    SCOPED_TRACE(process);
    Kill(process);
    EXPECT_EQ(Ask("127.0.0.1", 20080), "hello") << "meanwhile";
    EXPECT_EQ(AllTexts(), texts);
    // The same call gives the same network, compared with the kernel and not
    // only with the records.
    EXPECT_EQ(TextOf(SetUpNetwork("web", Bridge(20080))),
              texts.at("web").front());
    EXPECT_EQ(Outcome(client_->SetupNetwork("none", Bridge(20080))),
              "AlreadyExists");
    EXPECT_EQ(Outcome(client_->SetupNetwork("none", Bridge(20001))),
              "AlreadyExists");
    const NetworkStatus more = SetUpNetwork("more", Bridge(20090));
    EXPECT_NE(more.address, "");
    Release("more");
  }
  ASSERT_EQ(Outcome(client_->TeardownNetwork("web", "eth1")), "Ok");
  Node::KillAll();
  Connect();
  EXPECT_EQ(TextsOf("web"), Lines{texts.at("web").front()});
}

TEST_F(NodeNetworks, AllGoAfterASigkillOfAll) {
  const HeldNamespace held(kAgentUid);
  ASSERT_TRUE(held.valid());
  SetUpAllModes(held.fd());
  Node::KillAll();
  Connect();
  ReleaseAll();
}

// ---- Damage by other programs ----

TEST_F(NodeNetworks, ALinkThatIsDeletedIsRepairedAndToldOnce) {
  const NetworkStatus web = SetUpNetwork("web", Bridge(20080));
  const NetworkStatus db = SetUpNetwork("db", Bridge(20081));
  const Server server(web.netns_path, 80, "hello");
  Subscribe();
  ASSERT_TRUE(Run("ip link del " + web.host_interface));
  EXPECT_TRUE(Hears("web/eth0 repaired: link"));
  EXPECT_TRUE(Answers(20080));
  EXPECT_EQ(TextsOf("web"), Lines{TextOf(web)});
  // The signals of this second damage come after all of the first.
  ASSERT_TRUE(Run("ip link del " + db.host_interface));
  EXPECT_TRUE(Hears("db/eth0 repaired: link"));
  EXPECT_EQ(told_.All(),
            (Lines{"web/eth0 repaired: link", "db/eth0 repaired: link"}));
}

TEST_F(NodeNetworks, AHostEndThatIsChangedIsRepairedAndToldOnce) {
  const NetworkStatus web = SetUpNetwork("web", Bridge(20080));
  const Server server(web.netns_path, 80, "hello");
  Subscribe();
  const std::string on = " dev " + web.host_interface;
  const Lines damages = {
      "ip route del " + web.address + on,
      "ip -6 route del " + web.address6 + on,
      "ip neigh del " + web.address + on,
      "ip link set " + web.host_interface + " down",
      "ip link set " + web.host_interface + " address 02:00:00:00:00:99",
      // One request does both, because mountd puts up a link at once that is
      // down. Before Linux 6.2 only a link that is down can be renamed.
      "(ip link set " + web.host_interface +
          " down name other0 || (ip link set " + web.host_interface +
          " down && ip link set " + web.host_interface +
          " name other0)) && (ip link set other0 up || true)",
  };
  Lines heard;
  for (const std::string& damage : damages) {
    SCOPED_TRACE(damage);
    ASSERT_TRUE(Run(damage));
    heard.emplace_back("web/eth0 repaired: host-end");
    EXPECT_TRUE(Eventually([&] { return told_.All().size() == heard.size(); }));
    EXPECT_EQ(told_.All(), heard);
    EXPECT_TRUE(Answers(20080));
    EXPECT_EQ(Ask(web.address6, 80), "hello");
  }
}

// The kernel does not notify about this setting, so the test changes the link,
// too.
TEST_F(NodeNetworks, PortsOf127001ComeBackWithTheNextLook) {
  const NetworkStatus web = SetUpNetwork("web", Bridge(20080));
  const Server server(web.netns_path, 80, "hello");
  Subscribe();
  ASSERT_TRUE(Run("echo 0 >/proc/sys/net/ipv4/conf/" + web.host_interface +
                  "/route_localnet && ip link set " + web.host_interface +
                  " txqueuelen 500"));
  EXPECT_TRUE(Hears("web/eth0 repaired: host-end"));
  EXPECT_TRUE(Answers(20080));
}

TEST_F(NodeNetworks, TheHostsOwnAddressIsPutBack) {
  const NetworkStatus web = SetUpNetwork("web", Bridge(20080));
  const Server server(web.netns_path, 80, "hello");
  ASSERT_TRUE(Run("ip addr del 10.88.0.1/32 dev lo"));
  EXPECT_TRUE(
      Eventually([] { return Ask("10.88.0.1", 20080, 500) == "hello"; }));
}

TEST_F(NodeNetworks, ARulesetThatIsFlushedIsRestored) {
  const NetworkStatus web = SetUpNetwork("web", Bridge(20080));
  SetUpNetwork("db", Bridge(20081));
  const Server server(web.netns_path, 80, "hello");
  Subscribe();
  ASSERT_TRUE(exec::RunNftCommand("flush ruleset").has_value());
  EXPECT_TRUE(Eventually([&] { return told_.All().size() == 3; }));
  EXPECT_TRUE(Answers(20080));
  Lines lines = told_.All();
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(lines, (Lines{"db/eth0 repaired: elements", "ruleset restored",
                          "web/eth0 repaired: elements"}));
  // The damage is one chain's rules, then one map's elements.
  told_.Forget();
  ASSERT_TRUE(exec::RunNftCommand("flush chain inet mountd portmap"));
  EXPECT_TRUE(Hears("ruleset restored"));
  EXPECT_TRUE(Answers(20080));
  EXPECT_EQ(told_.All(), Lines{"ruleset restored"});
  told_.Forget();
  ASSERT_TRUE(exec::RunNftCommand("flush map inet mountd pm4"));
  EXPECT_TRUE(Eventually([&] { return told_.All().size() == 3; }));
  EXPECT_TRUE(Answers(20080));
  ReleaseAll();
}

TEST_F(NodeNetworks, AnOperatorsRuleIsNoChange) {
  const NetworkStatus web = SetUpNetwork("web", Bridge(20080));
  Subscribe();
  ASSERT_TRUE(exec::RunNftCommand("add rule inet mountd admin counter accept")
                  .has_value());
  ASSERT_TRUE(exec::RunNftCommand("add table inet others").has_value());
  ASSERT_TRUE(exec::RunNftCommand("delete table inet others").has_value());
  ASSERT_TRUE(exec::RunNftCommand("flush chain inet mountd forward"));
  EXPECT_TRUE(Hears("ruleset restored"));
  EXPECT_EQ(told_.All(), Lines{"ruleset restored"});
  EXPECT_TRUE(Run("nft list chain inet mountd admin | grep -q counter"))
      << "it is the operator's";
}

TEST_F(NodeNetworks, ANamespaceThatIsUnpinnedIsLostOnce) {
  const NetworkStatus web = SetUpNetwork("web", Bridge(20080));
  const NetworkStatus db = SetUpNetwork("db", Bridge(20081));
  Subscribe();
  ASSERT_EQ(::umount2("/run/netns/web", MNT_DETACH), 0);
  ASSERT_TRUE(fs::remove("/run/netns/web"));
  EXPECT_TRUE(Hears("web/eth0 lost"));
  ASSERT_TRUE(Run("ip link del " + db.host_interface));
  EXPECT_TRUE(Hears("db/eth0 repaired: link"));
  EXPECT_EQ(told_.All(), (Lines{"web/eth0 lost", "db/eth0 repaired: link"}));
  // The contract says that a new set-up needs a tear-down first.
  ASSERT_EQ(MessageOf(client_->TeardownNetwork("web")), "Ok");
  const NetworkStatus anew = SetUpNetwork("web", Bridge(20080));
  {
    const Server server(anew.netns_path, 80, "hello");
    EXPECT_TRUE(Answers(20080));
  }
  ReleaseAll();
}

TEST_F(NodeNetworks, ANamespaceAloneThatLosesItsNameIsLostOnce) {
  const HeldNamespace held(kAgentUid);
  ASSERT_TRUE(held.valid());
  SetUpNetwork("none", Mode("none"));
  SetUpNetwork("driver", Mode("driver", held.fd()));
  SetUpNetwork("driver", Bridge(20080));
  Subscribe();
  ASSERT_TRUE(Run("ip netns del none"));
  EXPECT_TRUE(Hears("none/lo lost"));
  // The link stays, because the driver's process holds the namespace.
  ASSERT_TRUE(Run("ip netns del driver"));
  EXPECT_TRUE(Hears("driver/lo lost"));
  EXPECT_TRUE(Hears("driver/eth0 lost"));
  EXPECT_EQ(told_.All().size(), 3U);
  // The agent tears down a network that was lost. No signal reports that.
  told_.Forget();
  ReleaseAll();
  EXPECT_TRUE(told_.All().empty());
}

// The kernel gives a namespace's inode number to the next namespace.
TEST_F(NodeNetworks, OneThatIsSetUpAnewAndLostAgainIsToldAgain) {
  Subscribe();
  for (std::size_t i = 1; i <= 12; ++i) {
    SetUpNetwork("web", Bridge(20080));
    ASSERT_EQ(::umount2("/run/netns/web", MNT_DETACH), 0);
    ASSERT_TRUE(fs::remove("/run/netns/web"));
    ASSERT_TRUE(Eventually([&] { return told_.All().size() >= i; })) << i;
    ASSERT_EQ(MessageOf(client_->TeardownNetwork("web")), "Ok");
  }
  EXPECT_EQ(told_.All(), Lines(12, "web/eth0 lost"));
  ReleaseAll();
}

TEST_F(NodeNetworks, WhatWentWhileMountdWasAwayIsRepaired) {
  const NetworkStatus web = SetUpNetwork("web", Bridge(20080));
  const Server server(web.netns_path, 80, "hello");
  WhileMountdIsAway(
      [&] { EXPECT_TRUE(Run("ip link del " + web.host_interface)); });
  EXPECT_TRUE(Eventually([&] { return HasLink(web.host_interface); }));
  EXPECT_TRUE(Answers(20080));
  WhileMountdIsAway(
      [] { EXPECT_TRUE(exec::RunNftCommand("flush ruleset").has_value()); });
  EXPECT_TRUE(Answers(20080));
  EXPECT_EQ(TextsOf("web"), Lines{TextOf(web)});
}

// ---- Addresses and ports ----

TEST_F(NodeNetworks, ThatFewAddressesAreLeftIsToldAndNoMoreAreGiven) {
  Subscribe();
  NetworkSpec small;
  small.network = "small";
  const std::uint32_t capacity = Usage("small").capacity;
  ASSERT_EQ(capacity, 5U);
  for (std::uint32_t i = 0; i < capacity; ++i) {
    EXPECT_TRUE(told_.All().empty());
    SetUpNetwork("a" + std::to_string(i), small);
  }
  EXPECT_TRUE(Hears("small scarce: 0 of 5"));
  EXPECT_EQ(Usage("small").free, 0U);
  EXPECT_EQ(Usage("default").free, Usage("default").capacity);
  Prepare("late");
  const Inventory full = Inventory::Take();
  small.ports = {{.label = "http", .host = 20080, .container = 80}};
  EXPECT_EQ(Outcome(client_->SetupNetwork("late", small)), "ResourceExhausted");
  EXPECT_EQ(NetworkDifference(full), "");
  EXPECT_TRUE(NetworksOf("late").empty());
  // The refused network did not keep the port.
  EXPECT_EQ(Outcome(client_->SetupNetwork("late", Bridge(20080))), "Ok");
  EXPECT_EQ(told_.All(), Lines{"small scarce: 0 of 5"});
  ReleaseAll();
}

TEST_F(NodeNetworks, WhatIsTakenIsRefusedAndNothingIsLeft) {
  NetworkSpec spec = Bridge(20080);
  spec.address = "10.88.0.77";
  spec.address6 = "fd88::77";
  const NetworkStatus web = SetUpNetwork("web", spec);
  EXPECT_EQ(web.address, "10.88.0.77");
  EXPECT_EQ(web.address6, "fd88::77");
  UniqueFd listener;
  ASSERT_NO_FATAL_FAILURE(ListenOnHost(&listener, 20500));
  Prepare("db");
  const Inventory full = Inventory::Take();
  const auto usage = Usage("default");
  const auto outcome = [&](const NetworkSpec& asked) {
    return Outcome(client_->SetupNetwork("db", asked));
  };
  NetworkSpec asked;
  asked.address = "10.88.0.77";
  EXPECT_EQ(outcome(asked), "AlreadyExists");
  asked.address = "10.88.0.78";
  asked.address6 = "fd88::77";
  EXPECT_EQ(outcome(asked), "AlreadyExists");
  asked.address = "10.90.0.2";
  EXPECT_EQ(outcome(asked), "InvalidArgument");
  EXPECT_EQ(outcome(Bridge(20080)), "AlreadyExists");
  EXPECT_EQ(outcome(Bridge(20080, "127.0.0.1")), "AlreadyExists");
  EXPECT_EQ(outcome(Bridge(20500)), "AlreadyExists");
  NetworkSpec range = Bridge(20400);
  range.ports[0].count = 101;
  EXPECT_EQ(outcome(range), "AlreadyExists") << "its last one";
  EXPECT_EQ(outcome(Bridge(19999)), "PermissionDenied");
  // An address of a refused plan is free once no link has it.
  EXPECT_TRUE(Eventually([&] { return Usage("default").free == usage.free; }));
  EXPECT_TRUE(NetworksOf("db").empty());
  EXPECT_EQ(NetworkDifference(full), "");
  asked.address = "10.88.0.78";
  asked.address6 = "";
  EXPECT_EQ(outcome(asked), "Ok") << "was not kept";
  ReleaseAll();
}

TEST_F(NodeNetworks, CapabilitiesNameModesAndAddresses) {
  const auto capabilities = client_->GetCapabilities();
  ASSERT_EQ(MessageOf(capabilities), "Ok");
  EXPECT_EQ(capabilities->network_modes,
            (Lines{"bridge", "none", "host", "driver"}));
  ASSERT_EQ(capabilities->addresses.size(), 2U);
  EXPECT_EQ(capabilities->addresses.at("default").capacity, 253U);
  EXPECT_EQ(Usage("default").free, 253U);
  SetUpNetwork("web", Bridge());
  EXPECT_EQ(Usage("default").free, 252U);
  SetUpNetwork("db", Mode("none"));
  EXPECT_EQ(Usage("default").free, 252U);
  ReleaseAll();
}

}  // namespace
}  // namespace mountd::testing
