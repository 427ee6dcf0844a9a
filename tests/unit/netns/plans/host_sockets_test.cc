// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The kernel's tables of sockets, as text, and its dumps, message by message;
// tests/root reads those of real sockets.
#include "netns/plans/host_sockets.h"

#include <gtest/gtest.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>

#include <cstring>
#include <string>

#include "tests/fuzz/refusing_kernel.h"
#include "tests/support/netlink_messages.h"

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

// Answers each dump with `count` sockets, one for each recv(2). Refuses to read
// the tables.
class DumpingKernel final : public fuzz::RefusingKernel {
 public:
  exec::Sys<UniqueFd> OpenNetlink(int /*protocol*/) override {
    ++opened;
    return UniqueFd();
  }
  exec::Sys<void> Send(int /*socket*/,
                       std::span<const std::byte> bytes) override {
    nlmsghdr header{};
    std::memcpy(&header, bytes.data(), sizeof(header));
    sequence_ = header.nlmsg_seq;
    left = count;
    return {};
  }
  exec::Sys<std::size_t> Receive(int /*socket*/,
                                 std::span<std::byte> into) override {
    inet_diag_msg socket{};
    socket.idiag_family = AF_INET;
    std::vector<std::byte> bytes =
        left == 0 ? NetlinkMessage(NLMSG_DONE, int{0}).Bytes()
                  : NetlinkMessage(SOCK_DIAG_BY_FAMILY, socket).Bytes();
    nlmsghdr header{};
    std::memcpy(&header, bytes.data(), sizeof(header));
    header.nlmsg_seq = sequence_;
    header.nlmsg_flags = flags;
    std::memcpy(bytes.data(), &header, sizeof(header));
    std::memcpy(into.data(), bytes.data(), bytes.size());
    left -= left == 0 ? 0 : 1;
    return bytes.size();
  }

  std::size_t count = 0;
  std::size_t left = 0;  // of the last dump
  std::uint16_t flags = 0;
  int opened = 0;

 private:
  std::uint32_t sequence_ = 0;
};

// A user's sockets on one port (SO_REUSEPORT) must not fill memory.
TEST(HostSocketDumps, GiveEachSocketBeforeTheNextRead) {
  DumpingKernel kernel;
  kernel.count = 1000;
  std::optional<Channel> diag;
  std::size_t given = 0;
  const Result<void> found =
      FindHostSockets(kernel, &diag, IPPROTO_TCP, 1, 2, [&](const HostSocket&) {
        ++given;
        EXPECT_EQ((given + kernel.left) % kernel.count, 0U);
      });
  EXPECT_TRUE(found) << found.error().Message();
  EXPECT_EQ(given, 2 * kernel.count);  // IPv4 and IPv6
  EXPECT_TRUE(diag);
}

TEST(HostSocketDumps, ThatMayLackASocketAreNoDumps) {
  DumpingKernel kernel;
  kernel.flags = NLM_F_DUMP_INTR;
  for (const std::size_t count : {0U, 3U}) {
    kernel.count = count;
    kernel.opened = 0;
    std::optional<Channel> diag;
    const Result<void> found = FindHostSockets(kernel, &diag, IPPROTO_UDP, 1, 2,
                                               [](const HostSocket&) {});
    ASSERT_FALSE(found) << count;
    EXPECT_EQ(found.error().code, Code::kFailedPrecondition);
    EXPECT_EQ(kernel.opened, 2);  // a later dump needs a socket of its own
    EXPECT_TRUE(diag);
  }
  kernel.flags = 0;
  kernel.opened = 0;
  std::optional<Channel> diag;
  EXPECT_TRUE(FindHostSockets(kernel, &diag, IPPROTO_UDP, 1, 2,
                              [](const HostSocket&) {}));
  EXPECT_EQ(kernel.opened, 1);
}

}  // namespace
}  // namespace mountd::netns
