// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/address/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <span>

namespace mountd::netns {
namespace {

// Returns whether the first `prefix` bits of both are equal.
bool SamePrefix(std::span<const std::uint8_t> a,
                std::span<const std::uint8_t> b, std::uint8_t prefix) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::size_t bits_before = i * 8;
    if (bits_before >= prefix) {
      return true;
    }
    const std::size_t bits = std::min<std::size_t>(8, prefix - bits_before);
    const auto mask = static_cast<std::uint8_t>(0xFFU << (8 - bits));
    if (((a[i] ^ b[i]) & mask) != 0) {
      return false;
    }
  }
  return true;
}

bool HostBitsAreZero(std::span<const std::uint8_t> base, std::uint8_t prefix) {
  for (std::size_t bit = prefix; bit < base.size() * 8; ++bit) {
    if ((base[bit / 8] & (0x80U >> (bit % 8))) != 0) {
      return false;
    }
  }
  return true;
}

// Refuses a NUL, because inet_pton(3) would stop there and accept the text
// before it.
template <typename Address>
bool ReadAddress(int family, std::string_view text, Address* address) {
  return text.find('\0') == std::string_view::npos &&
         inet_pton(family, std::string(text).c_str(), address->data()) == 1;
}

Error BadRange(std::string_view text, std::string_view why) {
  return MakeError(Code::kInvalidArgument, "parse", std::string(text),
                   std::string(why));
}

template <typename Address>
Result<Range<Address>> ParseRange(std::string_view text, int family,
                                  int min_prefix, int max_prefix) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    return BadRange(text, "must be ADDRESS/PREFIX");
  }
  Address base{};
  if (!ReadAddress(family, text.substr(0, slash), &base)) {
    return BadRange(text, "must be an address of this family");
  }
  const std::string_view digits = text.substr(slash + 1);
  int prefix = 0;
  const auto [end, status] =
      std::from_chars(digits.data(), digits.data() + digits.size(), prefix);
  if (status != std::errc() || end != digits.data() + digits.size() ||
      prefix < min_prefix || prefix > max_prefix) {
    return BadRange(text, "its prefix must be " + std::to_string(min_prefix) +
                              " to " + std::to_string(max_prefix));
  }
  Range<Address> range;
  range.base = base;
  range.prefix = static_cast<std::uint8_t>(prefix);
  if (!HostBitsAreZero(base, range.prefix)) {
    return BadRange(text, "must have no host bits set");
  }
  return range;
}

template <typename Address>
std::string Print(int family, const Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family, address.data(), text.data(), text.size());
  return text.data();
}

template <typename Address>
Result<Address> ParseAddress(std::string_view text, int family) {
  Address address{};
  if (!ReadAddress(family, text, &address)) {
    return MakeError(Code::kInvalidArgument, "parse", std::string(text),
                     "must be an address of this family");
  }
  return address;
}

template <typename Address>
Address Successor(Address base) {
  base.back() = static_cast<std::uint8_t>(base.back() + 1);
  return base;
}

// Returns the range's last address, with all host bits set.
template <typename Address>
Address LastOf(const Range<Address>& range) {
  Address last = range.base;
  for (std::size_t bit = range.prefix; bit < last.size() * 8; ++bit) {
    last.at(bit / 8) =
        static_cast<std::uint8_t>(last.at(bit / 8) | (0x80U >> (bit % 8)));
  }
  return last;
}

template <typename Address>
bool IsOfAllocations(const Range<Address>& range, const Address& address) {
  return range.Contains(address) && address != range.base &&
         address != HostAddress(range);
}

template <typename Address>
bool AllZero(const Address& address) {
  return std::all_of(address.begin(), address.end(),
                     [](std::uint8_t byte) { return byte == 0; });
}

}  // namespace

template <typename Address>
bool Range<Address>::Contains(const Address& address) const {
  return prefix != 0 && SamePrefix(base, address, prefix);
}
template struct Range<Ipv4>;
template struct Range<Ipv6>;

Ipv4 HostAddress(const Ipv4Range& range) { return Successor(range.base); }
Ipv6 HostAddress(const Ipv6Range& range) { return Successor(range.base); }

bool IsUsable(const Ipv4Range& range, const Ipv4& address) {
  return IsOfAllocations(range, address) && address != LastOf(range);
}

bool IsUsable(const Ipv6Range& range, const Ipv6& address) {
  return IsOfAllocations(range, address);
}

bool Overlap(const Ipv4Range& a, const Ipv4Range& b) {
  return a.Contains(b.base) || b.Contains(a.base);
}

bool Overlap(const Ipv6Range& a, const Ipv6Range& b) {
  return a.Contains(b.base) || b.Contains(a.base);
}

Result<Ipv4Range> ParseIpv4Range(std::string_view text) {
  // A /30 is the smallest range with an address for an allocation. Its other
  // three addresses are the range's own, the host's and the broadcast.
  return ParseRange<Ipv4>(text, AF_INET, 8, 30);
}

Result<Ipv6Range> ParseIpv6Range(std::string_view text) {
  return ParseRange<Ipv6>(text, AF_INET6, 32, 120);
}

std::string ToString(const Ipv4& address) { return Print(AF_INET, address); }
std::string ToString(const Ipv6& address) { return Print(AF_INET6, address); }

std::string ToString(const Ipv4Range& range) {
  return ToString(range.base) + "/" + std::to_string(range.prefix);
}
std::string ToString(const Ipv6Range& range) {
  return ToString(range.base) + "/" + std::to_string(range.prefix);
}

Result<Ipv4> ParseIpv4(std::string_view text) {
  return ParseAddress<Ipv4>(text, AF_INET);
}

Result<Ipv6> ParseIpv6(std::string_view text) {
  return ParseAddress<Ipv6>(text, AF_INET6);
}

bool IsNone(const Ipv4& address) { return AllZero(address); }
bool IsNone(const Ipv6& address) { return AllZero(address); }

Result<HostIp> ParseHostIp(std::string_view text) {
  HostIp address;
  if (text.empty()) {
    return address;
  }
  if (const Result<Ipv4> ipv4 = ParseIpv4(text)) {
    address.family = HostIp::Family::kIpv4;
    std::copy(ipv4->begin(), ipv4->end(), address.bytes.begin());
    return address;
  }
  const Result<Ipv6> ipv6 = ParseIpv6(text);
  if (!ipv6) {
    return MakeError(Code::kInvalidArgument, "parse", std::string(text),
                     "must be an IPv4 or IPv6 address");
  }
  address.family = HostIp::Family::kIpv6;
  address.bytes = *ipv6;
  return address;
}

Ipv4 Ipv4Of(const HostIp& address) {
  Ipv4 ipv4{};
  std::copy_n(address.bytes.begin(), ipv4.size(), ipv4.begin());
  return ipv4;
}

std::string ToString(const HostIp& address) {
  switch (address.family) {
    case HostIp::Family::kIpv4:
      return ToString(Ipv4Of(address));
    case HostIp::Family::kIpv6:
      return ToString(address.bytes);
    case HostIp::Family::kAny:
      break;
  }
  return "";
}

bool IsNone(const HostIp& address) { return AllZero(address.bytes); }

bool Overlap(const HostIp& a, const HostIp& b) {
  if (a.family == HostIp::Family::kAny || b.family == HostIp::Family::kAny) {
    return true;
  }
  return a.family == b.family && (a.bytes == b.bytes || IsNone(a) || IsNone(b));
}

std::string HostLinkName(const Ipv4& address) {
  std::array<char, 16> name{};
  std::snprintf(name.data(), name.size(), "md%02x%02x%02x%02x", address[0],
                address[1], address[2], address[3]);
  return name.data();
}

Mac LinkMac(const Ipv4& address) {
  // 0x02: a locally administered address of one station (IEEE 802).
  return {0x02, 0x4d, address[0], address[1], address[2], address[3]};
}

}  // namespace mountd::netns
