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

// Returns the first address of the range, which the host itself has.
Ipv4 HostAddress(const Ipv4Range& range);
Ipv6 HostAddress(const Ipv6Range& range);

// Returns whether an allocation may have the address: it lies in the range and
// is neither the range's own address nor the host's nor IPv4's broadcast.
bool IsUsable(const Ipv4Range& range, const Ipv4& address);
bool IsUsable(const Ipv6Range& range, const Ipv6& address);

// Returns the range that the address is usable in; null if there is none.
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

// Parses a range such as "10.88.0.0/16". InvalidArgument if host bits are set,
// or if the prefix is not 8 to 30.
Result<Ipv4Range> ParseIpv4Range(std::string_view text);
// Parses a range such as "fd88::/64". InvalidArgument if the prefix is not 32
// to 120, or if host bits are set.
Result<Ipv6Range> ParseIpv6Range(std::string_view text);

std::string ToString(const Ipv4& address);
std::string ToString(const Ipv6& address);
std::string ToString(const Ipv4Range& range);
std::string ToString(const Ipv6Range& range);
Result<Ipv4> ParseIpv4(std::string_view text);
Result<Ipv6> ParseIpv6(std::string_view text);

// The address of the host that a port map is limited to.
struct HostIp {
  enum class Family : std::uint8_t { kAny = 0, kIpv4 = 4, kIpv6 = 6 };
  Family family = Family::kAny;
  Ipv6 bytes{};  // IPv4: the first four bytes; all zero: any of the family
  friend auto operator<=>(const HostIp&, const HostIp&) = default;
};
// Parses "", "0.0.0.0", "::" or an address. InvalidArgument for any other text.
Result<HostIp> ParseHostIp(std::string_view text);
std::string ToString(const HostIp& address);
// Returns whether this is no single address: any, or any of its family.
bool IsNone(const HostIp& address);
Ipv4 Ipv4Of(const HostIp& address);
// Returns whether some address matches both.
bool Overlap(const HostIp& a, const HostIp& b);

bool IsNone(const Ipv4& address);
bool IsNone(const Ipv6& address);

// Names derived from an allocation's IPv4 address: the host end "md" + 8 hex
// digits, and the MAC 02:4d + address. Because they are derived, callers choose
// no name on the host, and nobody has to flush neighbours when an address is
// used again.
std::string HostLinkName(const Ipv4& address);
Mac LinkMac(const Ipv4& address);
// The same for the addresses of a network. The IPv6 address does not fit into a
// link's name. So a network with only IPv6 has the name "md" + 13 digits of
// base 32, from a hash of the address. The kernel refuses a second link of the
// same name.
std::string HostLinkName(const Ipv4& ipv4, const Ipv6& ipv6);
Mac LinkMac(const Ipv4& ipv4, const Ipv6& ipv6);
// Returns whether the name may be that of a network with IPv6 alone.
bool IsLinkNameOfIpv6Alone(std::string_view name);

// Returns whether the plan or record of a network has an address, and so a
// link.
template <typename Network>
bool HasAddress(const Network& network) {
  return !IsNone(network.ipv4) || !IsNone(network.ipv6);
}
// Returns the name of the host end.
template <typename Network>
std::string LinkNameOf(const Network& network) {
  return HostLinkName(network.ipv4, network.ipv6);
}

// The allocation's end of the link, in its namespace.
inline constexpr char kAllocationLink[] = "eth0";

// The gateways of the routed veth: on-link and the same for every allocation.
inline constexpr Ipv4 kGateway4 = {169, 254, 1, 1};
inline constexpr Ipv6 kGateway6 = {0xfe, 0x80, 0, 0, 0, 0, 0, 0,
                                   0,    0,    0, 0, 0, 0, 0, 1};
inline constexpr Mac kGatewayMac = {0x02, 0x4d, 0, 0, 0, 1};

}  // namespace mountd::netns
