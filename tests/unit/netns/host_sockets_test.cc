// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/host_sockets.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <string>

#include "mountd/base/unique_fd.h"

namespace mountd::netns {
namespace {

// A socket at an address, with a port that the kernel chose.
class Bound {
 public:
  Bound(const std::string& address, int type, bool ipv6_alone = false) {
    const bool ipv6 = address.find(':') != std::string::npos;
    socket_.reset(::socket(ipv6 ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, 0));
    sockaddr_in6 to{};
    socklen_t size = sizeof(to);
    if (ipv6) {
      const int alone = ipv6_alone ? 1 : 0;
      ::setsockopt(socket_.get(), IPPROTO_IPV6, IPV6_V6ONLY, &alone,
                   sizeof(alone));
      to.sin6_family = AF_INET6;
      ::inet_pton(AF_INET6, address.c_str(), &to.sin6_addr);
    } else {
      auto* ipv4 = reinterpret_cast<sockaddr_in*>(&to);
      ipv4->sin_family = AF_INET;
      ::inet_pton(AF_INET, address.c_str(), &ipv4->sin_addr);
      size = sizeof(*ipv4);
    }
    auto* any = reinterpret_cast<sockaddr*>(&to);
    EXPECT_EQ(::bind(socket_.get(), any, size), 0) << address;
    EXPECT_EQ(::getsockname(socket_.get(), any, &size), 0);
    port_ = ntohs(to.sin6_port);  // at the same place in both
  }
  void Listen() { EXPECT_EQ(::listen(socket_.get(), 1), 0); }
  void ConnectTo(const Bound& other) {
    sockaddr_in6 to{};
    socklen_t size = sizeof(to);
    auto* any = reinterpret_cast<sockaddr*>(&to);
    EXPECT_EQ(::getsockname(other.socket_.get(), any, &size), 0);
    EXPECT_EQ(::connect(socket_.get(), any, size), 0);
  }
  std::uint16_t port() const { return port_; }

 private:
  UniqueFd socket_;
  std::uint16_t port_ = 0;
};

// Where a socket hears what comes to the port; nullopt: there is none.
std::optional<HostIp> HeardAt(std::uint8_t protocol, const Bound& bound) {
  const auto found = FindHostSockets(protocol, bound.port(), bound.port());
  EXPECT_TRUE(found.has_value()) << found.error().Message();
  if (!found || found->empty()) {
    return std::nullopt;
  }
  EXPECT_EQ(found->front().port, bound.port());
  return found->front().address;
}

TEST(HostSockets, ListenersAreFoundWithTheirAddress) {
  struct Case {
    const char* bound;
    bool ipv6_alone;
    HostIp::Family family;
    const char* address;
  };
  for (const Case& one :
       {Case{"0.0.0.0", false, HostIp::Family::kIpv4, ""},
        Case{"127.0.0.1", false, HostIp::Family::kIpv4, "127.0.0.1"},
        Case{"::", false, HostIp::Family::kAny, ""},
        Case{"::", true, HostIp::Family::kIpv6, ""},
        Case{"::1", false, HostIp::Family::kIpv6, "::1"},
        Case{"::ffff:127.0.0.1", false, HostIp::Family::kIpv4, "127.0.0.1"}}) {
    SCOPED_TRACE(one.bound);
    Bound bound(one.bound, SOCK_STREAM, one.ipv6_alone);
    bound.Listen();
    const std::optional<HostIp> heard = HeardAt(IPPROTO_TCP, bound);
    ASSERT_TRUE(heard.has_value());
    EXPECT_EQ(heard->family, one.family);
    EXPECT_EQ(heard->bytes, ParseHostIp(one.address)->bytes);
  }
}

TEST(HostSockets, OneThatDoesNotListenHearsNothing) {
  const Bound bound("127.0.0.1", SOCK_STREAM);
  EXPECT_FALSE(HeardAt(IPPROTO_TCP, bound).has_value());
}

TEST(HostSockets, OfUdpThoseThatAreNotConnectedHearAnybody) {
  const Bound server("127.0.0.1", SOCK_DGRAM);
  EXPECT_TRUE(HeardAt(IPPROTO_UDP, server).has_value());
  EXPECT_FALSE(HeardAt(IPPROTO_TCP, server).has_value());
  Bound client("127.0.0.1", SOCK_DGRAM);
  client.ConnectTo(server);
  EXPECT_FALSE(HeardAt(IPPROTO_UDP, client).has_value());
}

TEST(HostSockets, OnlyPortsOfTheRangeAreTold) {
  Bound bound("127.0.0.1", SOCK_STREAM);
  bound.Listen();
  const auto among = [&](std::uint16_t first, std::uint16_t last) {
    const auto found = FindHostSockets(IPPROTO_TCP, first, last);
    return found.has_value() &&
           std::ranges::any_of(*found, [&](const HostSocket& socket) {
             return socket.port == bound.port();
           });
  };
  const std::uint16_t port = bound.port();
  const auto below = static_cast<std::uint16_t>(port - 1);
  const auto above = static_cast<std::uint16_t>(port + 1);
  EXPECT_TRUE(among(1, 65535));
  EXPECT_TRUE(among(port, above));
  EXPECT_TRUE(among(below, port));
  EXPECT_FALSE(among(1, below));
  EXPECT_FALSE(among(above, 65535));
}

}  // namespace
}  // namespace mountd::netns
