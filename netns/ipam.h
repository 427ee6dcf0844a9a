// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <set>

#include "mountd/base/result.h"
#include "netns/address.h"

namespace mountd::netns {

struct AddressPair {
  Ipv4 ipv4{};
  Ipv6 ipv6{};  // none if the network has no IPv6 range
};

// Which addresses of one network are taken. The host part is the lease: the
// IPv6 address is the range's base plus the same host part. Addresses are given
// out going round, so that one that was just freed is the last to come again.
// The network's own address, the one after it, which is the host's
// (netns/veth.h), and the last are never given out.
//
// In memory; rebuilt from the store's records at start. Not thread-safe: the
// owner (Networks) has a mutex.
class Ipam {
 public:
  Ipam(const Ipv4Range& ipv4, const Ipv6Range& ipv6);

  // ResourceExhausted when all are taken or quarantined.
  Result<AddressPair> Allocate();
  // Marks an address that a record holds; false if it was taken already or is
  // outside the range.
  bool Reserve(const Ipv4& address);
  void Free(const Ipv4& address);

  std::uint32_t capacity() const { return last_ - first_ + 1; }
  std::uint32_t free_count() const {
    return capacity() - static_cast<std::uint32_t>(taken_.size());
  }

 private:
  AddressPair PairOf(std::uint32_t host) const;
  bool HostOf(const Ipv4& address, std::uint32_t& host) const;

  const Ipv4Range ipv4_;
  const Ipv6Range ipv6_;
  std::uint32_t first_ = 2;
  std::uint32_t last_ = 0;
  std::uint32_t next_ = 2;
  std::set<std::uint32_t> taken_;
};

}  // namespace mountd::netns
