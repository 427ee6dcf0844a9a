// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "mountd/base/result.h"

namespace mountd::netns {

// Addresses in network byte order, as the kernel takes them.
using Ipv4 = std::array<std::uint8_t, 4>;
using Ipv6 = std::array<std::uint8_t, 16>;
using Mac = std::array<std::uint8_t, 6>;

struct Ipv4Range {
  Ipv4 base{};
  std::uint8_t prefix = 0;  // 0: no range
  bool Contains(const Ipv4& address) const;
};

struct Ipv6Range {
  Ipv6 base{};
  std::uint8_t prefix = 0;
  bool Contains(const Ipv6& address) const;
};

// "10.88.0.0/16"; host bits set, or a prefix outside 8..30, is InvalidArgument.
Result<Ipv4Range> ParseIpv4Range(std::string_view text);
// "fd88::/64"; a prefix outside 32..120 is InvalidArgument.
Result<Ipv6Range> ParseIpv6Range(std::string_view text);

std::string ToString(const Ipv4& address);
std::string ToString(const Ipv6& address);
Result<Ipv4> ParseIpv4(std::string_view text);
Result<Ipv6> ParseIpv6(std::string_view text);

bool IsNone(const Ipv4& address);
bool IsNone(const Ipv6& address);

// What is derived from an allocation's IPv4 address, so that callers choose no
// host-side name and an address that is used again needs no flush of
// neighbours: the host end "md" + 8 hex digits, the MAC 02:4d + address.
std::string HostLinkName(const Ipv4& address);
Mac LinkMac(const Ipv4& address);

// The allocation's end, in its namespace.
inline constexpr char kAllocationLink[] = "eth0";

// The routed veth's gateways, on-link and the same for every allocation.
inline constexpr Ipv4 kGateway4 = {169, 254, 1, 1};
inline constexpr Ipv6 kGateway6 = {0xfe, 0x80, 0, 0, 0, 0, 0, 0,
                                   0,    0,    0, 0, 0, 0, 0, 1};
inline constexpr Mac kGatewayMac = {0x02, 0x4d, 0, 0, 0, 1};

}  // namespace mountd::netns
