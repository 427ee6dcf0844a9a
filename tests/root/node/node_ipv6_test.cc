// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A whole mountd with a network of IPv6 alone: packets of an agent's tasks
// reach the host and each other, and packets of others reach the tasks.
#include <string>

#include "tests/root/node/node_network_fixture.h"
#include "tests/support/net_probe.h"

namespace mountd::testing {
namespace {

constexpr char kHost[] = "fd66::1";
constexpr char kHostsNetns[] = "/proc/self/ns/net";
constexpr std::uint16_t kPort = 20080;

class NodeOfIpv6Alone : public NodeNetworkFixture {
 protected:
  void SetUp() override {
    NodeNetworkFixture::SetUp();
    if (!IsSkipped() && !HasFatalFailure()) {
      before_ = Inventory::Take();
    }
  }
  std::string ConfigText() const override {
    return R"(
[network.six]
ipv6 = "fd66::/64"
[[rule]]
users = ["agent"]
networks = ["*"]
host_ports = ["20000-20999"]
)";
  }
  static agent::NetworkSpec Six(std::uint16_t host_port) {
    agent::NetworkSpec spec;
    spec.network = "six";
    spec.ports = {{.label = "web",
                   .host = host_port,
                   .container = 80,
                   .protocols = "tcp+udp"}};
    return spec;
  }
  void ReleaseAll() {
    for (const char* allocation : {"web", "db"}) {
      Release(allocation);
    }
    EXPECT_EQ(NetworkDifference(before_), "");
  }

  Inventory before_;
};

TEST_F(NodeOfIpv6Alone, ATaskReachesTheHostAndOtherTasks) {
  const agent::NetworkStatus web = SetUpNetwork("web", Six(kPort));
  const agent::NetworkStatus db = SetUpNetwork("db", Six(kPort + 1));
  EXPECT_EQ(web.address + web.gateway, "") << "of IPv4";
  EXPECT_EQ(web.gateway6, "fe80::1");
  {
    const Server host(kHostsNetns, 7000, "");  // answers the client's address
    EXPECT_EQ(AskFrom(web.netns_path, kHost, 7000), web.address6);
    EXPECT_EQ(AskFrom(db.netns_path, kHost, 7000), db.address6);
    const Server task(web.netns_path, 80, "");
    EXPECT_EQ(AskFrom(db.netns_path, web.address6, 80), db.address6);
    EXPECT_EQ(AskFrom(db.netns_path, web.address6, 81, kNoAnswerMs), "");
  }
  ReleaseAll();
}

TEST_F(NodeOfIpv6Alone, AMappedPortIsReachedUntilItsEnd) {
  const agent::NetworkStatus web = SetUpNetwork("web", Six(kPort));
  const agent::NetworkStatus db = SetUpNetwork("db", Six(kPort + 1));
  const auto is_reached = [&] {
    EXPECT_EQ(Ask(kHost, kPort), "tcp");
    EXPECT_EQ(AskUdp(kHost, kPort), "udp");
    EXPECT_EQ(AskFrom(db.netns_path, kHost, kPort), "tcp");
    EXPECT_EQ(Ask(web.address6, 80), "tcp");
  };
  {
    const Server tcp(web.netns_path, 80, "tcp");
    const Server udp(web.netns_path, 80, "udp", Server::Transport::kUdp);
    is_reached();
    EXPECT_EQ(Ask("127.0.0.1", kPort, kNoAnswerMs), "") << "of IPv4";
    EXPECT_EQ(Ask(kHost, kPort + 1, kNoAnswerMs), "") << "of another task";
    for (const char* process : {"mountd", "mountd-exec"}) {
      SCOPED_TRACE(process);
      Kill(process);
      is_reached();
      EXPECT_EQ(TextOf(SetUpNetwork("web", Six(kPort))), TextOf(web));
    }
    ASSERT_EQ(MessageOf(client_->TeardownNetwork("web")), "Ok");
    EXPECT_EQ(Ask(kHost, kPort, kNoAnswerMs), "");
  }
  ReleaseAll();
}

}  // namespace
}  // namespace mountd::testing
