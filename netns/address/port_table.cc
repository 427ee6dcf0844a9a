// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/address/port_table.h"

#include <netinet/in.h>

#include <algorithm>

namespace mountd::netns {
namespace {

std::string NameOf(std::uint16_t port, std::uint8_t protocol) {
  const char* name = protocol == IPPROTO_TCP   ? "/tcp"
                     : protocol == IPPROTO_UDP ? "/udp"
                                               : "/sctp";
  return "host port " + std::to_string(port) + name;
}

}  // namespace

Result<void> PortTable::TakeOne(const std::string& owner, const Key& key,
                                const HostIp& address) {
  std::vector<Holding>& holdings = taken_[key];
  for (const Holding& other : holdings) {
    if (!Overlap(other.address, address)) {
      continue;
    }
    return other.owner == owner
               ? MakeError(Code::kInvalidArgument, "map",
                           NameOf(key.first, key.second),
                           "is named twice in one request")
               : MakeError(Code::kAlreadyExists, "map",
                           NameOf(key.first, key.second),
                           "is already mapped; ask for another");
  }
  holdings.push_back({address, owner});
  of_[owner].push_back(key);
  return Ok();
}

Result<void> PortTable::Take(const std::string& owner,
                             std::span<const HostPorts> ports) {
  for (const HostPorts& some : ports) {
    for (std::uint32_t i = 0; i < some.count; ++i) {
      const auto port = static_cast<std::uint16_t>(some.first + i);
      Result<void> taken = TakeOne(owner, {port, some.protocol}, some.address);
      if (!taken) {
        Free(owner);
        return taken;
      }
    }
  }
  return Ok();
}

bool PortTable::AreFree(const HostPorts& ports) const {
  for (std::uint32_t i = 0; i < ports.count; ++i) {
    const auto port = static_cast<std::uint16_t>(ports.first + i);
    const auto found = taken_.find({port, ports.protocol});
    if (found != taken_.end() &&
        std::any_of(found->second.begin(), found->second.end(),
                    [&](const Holding& one) {
                      return Overlap(one.address, ports.address);
                    })) {
      return false;
    }
  }
  return true;
}

void PortTable::Free(const std::string& owner) {
  const auto found = of_.find(owner);
  if (found == of_.end()) {
    return;
  }
  for (const Key& key : found->second) {
    const auto entry = taken_.find(key);
    if (entry == taken_.end()) {
      continue;
    }
    std::erase_if(entry->second,
                  [&](const Holding& one) { return one.owner == owner; });
    if (entry->second.empty()) {
      taken_.erase(entry);
    }
  }
  of_.erase(found);
}

std::uint32_t PortTable::CountFree(std::uint16_t first,
                                   std::uint16_t last) const {
  std::uint32_t free = last >= first ? last - first + 1U : 0U;
  int seen = -1;
  for (auto entry = taken_.lower_bound({first, 0});
       entry != taken_.end() && entry->first.first <= last; ++entry) {
    if (!entry->second.empty() && entry->first.first != seen) {
      seen = entry->first.first;
      --free;
    }
  }
  return free;
}

}  // namespace mountd::netns
