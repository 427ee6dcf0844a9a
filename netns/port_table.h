// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mountd/base/result.h"
#include "netns/address.h"

namespace mountd::netns {

// A host port, or some in a row, of one transport protocol.
struct HostPorts {
  std::uint8_t protocol = 0;  // IPPROTO_*
  std::uint16_t first = 0;
  std::uint16_t count = 1;
  HostIp address;
};

// Which host ports are taken, and whose they are. In memory; rebuilt from the
// store's records at start. Not thread-safe: the owner (Networks) has a mutex.
class PortTable {
 public:
  // All or none. AlreadyExists names the port, if another owner has it at an
  // address that overlaps; InvalidArgument if two of `ports` do.
  Result<void> Take(const std::string& owner, std::span<const HostPorts> ports);
  // All of the owner's.
  void Free(const std::string& owner);

  // How many ports from `first` to `last` nobody has of any protocol.
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
  std::map<std::string, std::vector<Key>> of_;  // owner's
};

}  // namespace mountd::netns
