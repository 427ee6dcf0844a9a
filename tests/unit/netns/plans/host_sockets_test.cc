// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The kernel's tables of sockets, as text; tests/root reads the tables of real
// sockets.
#include "netns/plans/host_sockets.h"

#include <gtest/gtest.h>

#include <string>

namespace mountd::netns {
namespace {

constexpr unsigned kListen = 10;

const std::string kHead =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when "
    "retrnsmt   uid  timeout inode\n";
const std::string kRest = " 00000000:00000000 00:00000000 00000000 ";

TEST(HostSocketTables, AreReadByTheirState) {
  const auto sockets = HostSocketsOfTable(
      kHead + "   0: 0100007F:1F90 00000000:0000 0A" + kRest +
          " 1000        0 4711 1 0000000000000000 100 0 0 10 0   \n" +
          "  12: 0100007F:1F91 0100007F:9C40 01" + kRest +
          " 1000        0 4712 1 0000000000000000 100 0 0 10 0\n",
      kListen);
  ASSERT_TRUE(sockets.has_value()) << sockets.error().Message();
  ASSERT_EQ(sockets->size(), 1U);
  EXPECT_EQ(sockets->front().port, 8080);
  EXPECT_EQ(ToString(sockets->front().address), "127.0.0.1");
  EXPECT_EQ(sockets->front().uid, 1000U);
  EXPECT_EQ(sockets->front().inode, 4711U);
}

TEST(HostSocketTables, OfIpv6TellNotWhichHearIpv4) {
  const std::string none = "00000000000000000000000000000000";
  const auto of = [&](const std::string& address) {
    const auto sockets =
        HostSocketsOfTable(kHead + "   0: " + address + ":1F90 " + none +
                               ":0000 0A" + kRest + "    0        0 4711 1\n",
                           kListen);
    EXPECT_TRUE(sockets.has_value() && sockets->size() == 1) << address;
    return sockets->front().address;
  };
  EXPECT_EQ(of(none).family, HostIp::Family::kAny);
  EXPECT_EQ(ToString(of("00000000000000000000000001000000")), "::1");
  EXPECT_EQ(ToString(of("0000000000000000FFFF00000100007F")), "127.0.0.1");
}

// A line that is not understood may belong to a listening socket.
TEST(HostSocketTables, ALineThatIsNoSocketsIsAnError) {
  for (const char* line :
       {"   0: 0100007F:1F90", "   0: 0100007F 00000000:0000 0A",
        "   0: 0100007F:1F90 0:0 XX 0:0 0:0 0 0 0 1",
        "   0: 0100007F:1F90 0:0 0A 0:0 0:0 0 x 0 1",
        "   0: 0100007F:123456 0:0 0A 0:0 0:0 0 0 0 1"}) {
    EXPECT_FALSE(HostSocketsOfTable(kHead + line + "\n", kListen).has_value())
        << line;
    EXPECT_FALSE(HostSocketsOfEndpoints(kHead + line + "\n").has_value())
        << line;
  }
  EXPECT_TRUE(HostSocketsOfTable(kHead, kListen)->empty());
  EXPECT_TRUE(HostSocketsOfTable("", kListen)->empty());
}

TEST(HostSocketTables, OfSctpAreThoseThatListen) {
  const auto sockets = HostSocketsOfEndpoints(
      " ENDPT     SOCK   STY SST HBKT LPORT   UID INODE LADDRS\n"
      "ffff8800 ffff8801 2   10  29   5000   1000 4711 0.0.0.0 \n"
      "ffff8800 ffff8801 2   7   29   5001   1000 4712 127.0.0.1 10.0.0.1 \n");
  ASSERT_TRUE(sockets.has_value()) << sockets.error().Message();
  ASSERT_EQ(sockets->size(), 1U);
  EXPECT_EQ(sockets->front().port, 5000);
  EXPECT_EQ(sockets->front().inode, 4711U);
}

TEST(HostSocketTables, AMessageThatIsTooShortIsNoSocket) {
  EXPECT_FALSE(HostSocketOf({}).has_value());
}

}  // namespace
}  // namespace mountd::netns
