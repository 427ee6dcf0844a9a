// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The leak check finds each kind of object that a network may leave.
#include <chrono>
#include <cstdlib>
#include <ostream>
#include <string>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/private_namespaces.h"

namespace mountd::testing {
namespace {

struct Left {
  const char* name;
  const char* make;     // a shell command
  const char* differs;  // the start of a line in the difference
};

void PrintTo(const Left& left, std::ostream* out) { *out << left.name; }

class Leaks : public PrivateNamespaces,
              public ::testing::WithParamInterface<Left> {};

TEST_P(Leaks, AreSeen) {
  ASSERT_EQ(std::system("ip link add other type veth peer name end &&"
                        "ip link set other up && ip link set end up"),
            0);
  // The link's own addresses and routes come a moment later.
  ASSERT_TRUE(Eventually([] {
    const Inventory first = Inventory::Take();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return first.items == Inventory::Take().items;
  }));
  const Inventory before = Inventory::Take();
  ASSERT_EQ(std::system(GetParam().make), 0);
  const std::string difference = DifferenceWithin(before, 0);
  EXPECT_NE(difference.find(GetParam().differs), std::string::npos)
      << difference;
}

INSTANTIATE_TEST_SUITE_P(
    Of, Leaks,
    ::testing::Values(
        Left{"AnAddress", "ip -6 addr add fd77::7/128 dev lo",
             "+ address fd77::7/128 dev lo"},
        Left{"ARoute", "ip route add 10.1.2.0/24 dev other table 77",
             "+ route 10.1.2.0/24 via default dev other table 77"},
        Left{"ARouteOfIpv6", "ip -6 route add fd77::/64 dev other",
             "+ route fd77::/64 via default dev other"},
        Left{"ARule", "ip rule add from 10.1.2.3 table 77 priority 7",
             "+ rule 7 of family 2 from 10.1.2.3 table 77"},
        Left{"ANeighbour",
             "ip neigh add 10.1.2.3 lladdr 02:00:00:00:00:01 dev other",
             "+ neighbour 10.1.2.3 dev other"},
        Left{"AProxiedNeighbour", "ip -6 neigh add proxy fd77::1 dev other",
             "+ neighbour fd77::1 dev other proxy"},
        // The kernel tracks connections once a rule asks for their state.
        Left{"AConnection",
             "nft 'add table inet t; add chain inet t c { type filter hook "
             "output priority 0; }; add rule inet t c ct state new accept' && "
             "bash -c 'echo x >/dev/udp/127.0.0.1/9'",
             "+ connection 17 from 127.0.0.1:"},
        Left{"AConnectionOfIpv6",
             "nft 'add table inet t; add chain inet t c { type filter hook "
             "output priority 0; }; add rule inet t c ct state new accept' && "
             "bash -c 'echo x >/dev/udp/::1/9'",
             "+ connection 17 from ::1:"},
        Left{"ASetting", "echo 1 >/proc/sys/net/ipv4/conf/all/route_localnet",
             "+ setting /proc/sys/net/ipv4/conf/all/route_localnet = 1"},
        Left{"ASettingOfNewLinks",
             "echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad",
             "+ setting /proc/sys/net/ipv6/conf/default/accept_dad = 0"},
        Left{"ALink", "ip link add another type veth peer name brother",
             "+ link another"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace mountd::testing
