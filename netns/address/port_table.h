// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mountd/base/result.h"
#include "netns/address/address.h"

namespace mountd::netns {

// One host port, or several in a row, of one transport protocol.
struct HostPorts {
  std::uint8_t protocol = 0;  // IPPROTO_*
  std::uint16_t first = 0;
  std::uint16_t count = 1;
  HostIp address;
};

// Owns the host ports that are taken, each with its owner. Lives in memory;
// Networks rebuilds it from the store's records at start. Not thread-safe: its
// owner, Networks, has a mutex.
class PortTable {
 public:
  // Takes all ports or none. AlreadyExists if another owner has one of them at
  // an overlapping address; the error names the port. InvalidArgument if two of
  // `ports` overlap.
  Result<void> Take(const std::string& owner, std::span<const HostPorts> ports);
  // Returns whether nobody has one of the ports at an overlapping address.
  bool AreFree(const HostPorts& ports) const;
  // Frees all ports of the owner.
  void Free(const std::string& owner);

  // Returns how many ports from `first` to `last` are free in every protocol.
  std::uint32_t CountFree(std::uint16_t first, std::uint16_t last) const;

 private:
  struct Holding {
    HostIp address;
    std::string owner;
  };
  using Key = std::pair<std::uint16_t, std::uint8_t>;  // port, protocol

  Result<void> TakeOne(const std::string& owner, const Key& key,
                       const HostIp& address);

  std::map<Key, std::vector<Holding>> taken_;
  std::map<std::string, std::vector<Key>> of_;  // by owner
};

}  // namespace mountd::netns
