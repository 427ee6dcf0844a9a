// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The names on the host of networks that have IPv6 alone.
#include <bit>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "netns/address/address.h"

namespace mountd::netns {
namespace {

constexpr std::string_view kPrefix = "md";
constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuv";
constexpr std::size_t kCount = 13;  // 65 bits; an IPv4 name has 8 digits

std::uint64_t WordAt(std::span<const std::uint8_t> bytes) {
  std::uint64_t word = 0;
  for (std::size_t i = 8; i-- > 0;) {
    word = word << 8U | bytes[i];
  }
  return word;
}

// Returns the SipHash-2-4 of the address (Aumasson and Bernstein, 2012), under
// a key that is the same on each machine. A caller may choose the address, so
// it must be hard to find two addresses with the same hash.
std::uint64_t HashOf(const Ipv6& address) {
  constexpr std::uint64_t kKey0 = 0x6d6f756e74642d6eULL;
  constexpr std::uint64_t kKey1 = 0x65746e732d697076ULL;
  std::uint64_t v0 = kKey0 ^ 0x736f6d6570736575ULL;
  std::uint64_t v1 = kKey1 ^ 0x646f72616e646f6dULL;
  std::uint64_t v2 = kKey0 ^ 0x6c7967656e657261ULL;
  std::uint64_t v3 = kKey1 ^ 0x7465646279746573ULL;
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1;
      v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32);
      v2 += v1;
      v0 += v3;
      v1 = std::rotl(v1, 17) ^ v2;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    }
  };
  const std::span<const std::uint8_t> bytes(address);
  // The last word is the length, in its highest byte.
  for (const std::uint64_t word :
       {WordAt(bytes.first(8)), WordAt(bytes.subspan(8)),
        std::uint64_t{sizeof(Ipv6)} << 56U}) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  }
  v2 ^= 0xffU;
  rounds(4);
  return v0 ^ v1 ^ v2 ^ v3;
}

}  // namespace

std::string HostLinkName(const Ipv4& ipv4, const Ipv6& ipv6) {
  if (!IsNone(ipv4)) {
    return HostLinkName(ipv4);
  }
  std::uint64_t hash = HashOf(ipv6);
  std::string name(kPrefix);
  for (std::size_t i = 0; i < kCount; ++i, hash >>= 5U) {
    name += kDigits[hash & 31U];
  }
  return name;
}

bool IsLinkNameOfIpv6Alone(std::string_view name) {
  // The last digit has the four bits that are left of the hash.
  return name.size() == kPrefix.size() + kCount && name.starts_with(kPrefix) &&
         name.find_first_not_of(kDigits, kPrefix.size()) ==
             std::string_view::npos &&
         kDigits.find(name.back()) < 16;
}

Mac LinkMac(const Ipv4& ipv4, const Ipv6& ipv6) {
  if (!IsNone(ipv4)) {
    return LinkMac(ipv4);
  }
  const std::uint64_t hash = HashOf(ipv6);
  // The MAC need not be unique, because only one other end is on the link.
  return LinkMac(Ipv4{static_cast<std::uint8_t>(hash >> 24U),
                      static_cast<std::uint8_t>(hash >> 16U),
                      static_cast<std::uint8_t>(hash >> 8U),
                      static_cast<std::uint8_t>(hash)});
}

}  // namespace mountd::netns
