// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "mountd/base/result.h"
#include "netns/address/address.h"

namespace mountd::netns {

// Owns the addresses of one family and one network. Gives addresses out in a
// circle through the ranges, so that an address just freed comes last again.
// Never gives out the first address of a range, the second (the host's) or
// IPv4's broadcast.
//
// Lives in memory; Networks rebuilds it from the store's records at start. Not
// thread-safe: its owner, Networks, has a mutex.
template <typename Address>
class AddressPool {
 public:
  explicit AddressPool(std::vector<Range<Address>> ranges)
      : ranges_(std::move(ranges)) {
    for (const Range<Address>& range : ranges_) {
      capacity_ += CapacityOf(range);
    }
  }

  bool empty() const { return ranges_.empty(); }

  // Takes the next free address. ResourceExhausted when all are taken or
  // quarantined.
  Result<Address> Allocate() {
    for (std::uint64_t tried = 0; tried < capacity_; ++tried) {
      const Address address = Next();
      if (taken_.insert(address).second) {
        return address;
      }
    }
    return MakeError(Code::kResourceExhausted, "allocate", "address",
                     "all " + std::to_string(capacity_) +
                         " addresses are in use; release allocations or "
                         "declare a larger range");
  }

  // Takes this address. InvalidArgument if no allocation may have it.
  // AlreadyExists if it is taken or quarantined.
  Result<void> Take(const Address& address) {
    if (RangeOf(ranges_, address) == nullptr) {
      return MakeError(
          Code::kInvalidArgument, "allocate", ToString(address),
          "is not an address of the network that allocations can have");
    }
    if (!taken_.insert(address).second) {
      return MakeError(Code::kAlreadyExists, "allocate", ToString(address),
                       "belongs to another allocation, or did a moment ago; "
                       "ask for another or try later");
    }
    return Ok();
  }

  void Free(const Address& address) { taken_.erase(address); }

  // Counts and gives out at most this many addresses of one range.
  static constexpr std::uint64_t kMostOfARange = std::uint64_t{1} << 24U;
  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t free_count() const {
    return capacity_ - std::min<std::uint64_t>(capacity_, taken_.size());
  }

 private:
  static constexpr std::uint64_t kFirst = 2;  // after the range's, the host's

  static std::uint64_t CapacityOf(const Range<Address>& range) {
    constexpr bool kHasBroadcast = sizeof(Address) == sizeof(Ipv4);
    const unsigned bits =
        static_cast<unsigned>(sizeof(Address)) * 8U - range.prefix;
    // At most 32 bits, because more would overflow the shift.
    const std::uint64_t all = std::uint64_t{1} << std::min(bits, 32U);
    return std::min(all - kFirst - (kHasBroadcast ? 1 : 0), kMostOfARange);
  }

  static Address Nth(const Range<Address>& range, std::uint64_t number) {
    Address address = range.base;
    for (std::size_t i = address.size(); i-- > 0 && number != 0;
         number >>= 8U) {
      address.at(i) =
          static_cast<std::uint8_t>(address.at(i) | (number & 0xFFU));
    }
    return address;
  }

  Address Next() {
    const Address address = Nth(ranges_[range_], kFirst + offset_);
    if (++offset_ == CapacityOf(ranges_[range_])) {
      offset_ = 0;
      range_ = (range_ + 1) % ranges_.size();
    }
    return address;
  }

  const std::vector<Range<Address>> ranges_;
  std::uint64_t capacity_ = 0;
  std::size_t range_ = 0;     // the range of the next address
  std::uint64_t offset_ = 0;  // the next address within it
  std::set<Address> taken_;
};

}  // namespace mountd::netns
