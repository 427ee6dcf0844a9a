// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::netns {

// Addresses in network byte order, as the kernel takes them.
using Ipv4 = std::array<std::uint8_t, 4>;
using Ipv6 = std::array<std::uint8_t, 16>;
using Mac = std::array<std::uint8_t, 6>;

template <typename Address>
struct Range {
  Address base{};
  std::uint8_t prefix = 0;
  bool Contains(const Address& address) const;
  friend bool operator==(const Range&, const Range&) = default;
};
using Ipv4Range = Range<Ipv4>;
using Ipv6Range = Range<Ipv6>;

// The first address of a range is the host's own in it.
Ipv4 HostAddress(const Ipv4Range& range);
Ipv6 HostAddress(const Ipv6Range& range);

// Whether an allocation may have the address: in the range, and neither the
// range's own, nor the host's, nor IPv4's broadcast.
bool IsUsable(const Ipv4Range& range, const Ipv4& address);
bool IsUsable(const Ipv6Range& range, const Ipv6& address);

// Which of the ranges the address is of; null if none.
template <typename Address>
const Range<Address>* RangeOf(const std::vector<Range<Address>>& ranges,
                              const Address& address) {
  for (const Range<Address>& range : ranges) {
    if (IsUsable(range, address)) {
      return &range;
    }
  }
  return nullptr;
}

bool Overlap(const Ipv4Range& a, const Ipv4Range& b);
bool Overlap(const Ipv6Range& a, const Ipv6Range& b);

// "10.88.0.0/16"; host bits set, or a prefix outside 8..30, is InvalidArgument.
Result<Ipv4Range> ParseIpv4Range(std::string_view text);
// "fd88::/64"; a prefix outside 32..120 is InvalidArgument.
Result<Ipv6Range> ParseIpv6Range(std::string_view text);

std::string ToString(const Ipv4& address);
std::string ToString(const Ipv6& address);
std::string ToString(const Ipv4Range& range);
std::string ToString(const Ipv6Range& range);
Result<Ipv4> ParseIpv4(std::string_view text);
Result<Ipv6> ParseIpv6(std::string_view text);

// An address of the host that a port map is limited to.
struct HostIp {
  enum class Family : std::uint8_t { kAny = 0, kIpv4 = 4, kIpv6 = 6 };
  Family family = Family::kAny;
  Ipv6 bytes{};  // an IPv4 address is its first four; all zero: any of family
  friend auto operator<=>(const HostIp&, const HostIp&) = default;
};
// "", "0.0.0.0", "::", or an address; InvalidArgument for all else.
Result<HostIp> ParseHostIp(std::string_view text);
std::string ToString(const HostIp& address);
bool IsNone(
    const HostIp& address);  // no one address: any, or any of its family
Ipv4 Ipv4Of(const HostIp& address);
// Whether there is an address that both mean.
bool Overlap(const HostIp& a, const HostIp& b);

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
