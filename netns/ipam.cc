// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/ipam.h"

namespace mountd::netns {
namespace {

std::uint32_t ToNumber(const Ipv4& address) {
  return (std::uint32_t{address[0]} << 24U) |
         (std::uint32_t{address[1]} << 16U) |
         (std::uint32_t{address[2]} << 8U) | std::uint32_t{address[3]};
}

Ipv4 FromNumber(std::uint32_t number) {
  return {static_cast<std::uint8_t>(number >> 24U),
          static_cast<std::uint8_t>(number >> 16U),
          static_cast<std::uint8_t>(number >> 8U),
          static_cast<std::uint8_t>(number)};
}

}  // namespace

Ipam::Ipam(const Ipv4Range& ipv4, const Ipv6Range& ipv6)
    : ipv4_(ipv4), ipv6_(ipv6) {
  const unsigned host_bits = 32U - ipv4_.prefix;
  last_ = static_cast<std::uint32_t>((std::uint64_t{1} << host_bits) - 2);
  // An IPv6 range smaller than the IPv4 one limits both.
  const unsigned host_bits6 = 128U - ipv6_.prefix;
  if (ipv6_.prefix != 0 && host_bits6 < host_bits) {
    last_ = static_cast<std::uint32_t>((std::uint64_t{1} << host_bits6) - 2);
  }
}

Result<AddressPair> Ipam::Allocate() {
  for (std::uint32_t tried = 0; tried < capacity(); ++tried) {
    const std::uint32_t host = next_;
    next_ = next_ == last_ ? first_ : next_ + 1;
    if (taken_.insert(host).second) {
      return PairOf(host);
    }
  }
  return MakeError(
      Code::kResourceExhausted, "allocate", "address",
      "all " + std::to_string(capacity()) + " addresses are in use");
}

bool Ipam::Reserve(const Ipv4& address) {
  std::uint32_t host = 0;
  return HostOf(address, host) && taken_.insert(host).second;
}

void Ipam::Free(const Ipv4& address) {
  std::uint32_t host = 0;
  if (HostOf(address, host)) {
    taken_.erase(host);
  }
}

bool Ipam::HostOf(const Ipv4& address, std::uint32_t& host) const {
  if (!ipv4_.Contains(address)) {
    return false;
  }
  host = ToNumber(address) - ToNumber(ipv4_.base);
  return host >= first_ && host <= last_;
}

AddressPair Ipam::PairOf(std::uint32_t host) const {
  AddressPair pair;
  pair.ipv4 = FromNumber(ToNumber(ipv4_.base) + host);
  if (ipv6_.prefix != 0) {
    pair.ipv6 = ipv6_.base;
    const Ipv4 low = FromNumber(host);
    for (std::size_t i = 0; i < low.size(); ++i) {
      auto& byte = pair.ipv6.at(12 + i);
      byte = static_cast<std::uint8_t>(byte | low.at(i));
    }
  }
  return pair;
}

}  // namespace mountd::netns
