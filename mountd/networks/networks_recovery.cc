// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The part of Networks that records networks without a record at a start.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "mountd/networks/networks.h"
#include "netns/address/address.h"

namespace mountd {
namespace {

PortMapping PortOf(const exec::PortMap& found) {
  PortMapping port;
  port.host_port = found.host_port;
  port.container_port = found.container_port;
  port.protocols = found.protocols;
  port.count = found.count;
  port.host_address.family =
      static_cast<netns::HostIp::Family>(found.host_family);
  port.host_address.bytes = found.host_address;
  return port;
}

// Returns the network whose range contains the address; "" if no configured
// network does.
std::string NetworkOf(const Config& config, const exec::FoundNetwork& found) {
  const auto is_in = [](const auto& ranges, const auto& address) {
    return std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) {
      return range.Contains(address);
    });
  };
  for (const auto& [name, network] : config.networks) {
    if (netns::IsNone(found.ipv4) ? is_in(network.ipv6, found.ipv6)
                                  : is_in(network.ipv4, found.ipv4)) {
      return name;
    }
  }
  return "";
}

NetworkRecord RecordOf(const exec::FoundNetwork& found, const Config& config) {
  NetworkRecord record;
  record.allocation = exec::Text(found.allocation);
  record.netns_inode = found.netns_inode;
  record.state = NetworkRecordState::kFound;
  record.mode = NetworkMode::kNone;
  record.interface = kLoopbackInterface;
  // Nobody knows the network's files. With a hostname in the record, the
  // tear-down removes all of them.
  record.files.hostname = record.allocation;
  record.network = NetworkOf(config, found);
  if (netns::HasAddress(found) && !record.network.empty()) {
    record.mode = NetworkMode::kBridge;
    record.interface = netns::LinkNameOf(found);
    record.ipv4 = found.ipv4;
    record.ipv6 = found.ipv6;
    record.flags = found.flags;
  }
  for (std::size_t i = 0; i < found.port_count; ++i) {
    record.ports.push_back(PortOf(found.ports.at(i)));
  }
  return record;
}

}  // namespace

Result<void> Networks::RecordFound() {
  MOUNTD_ASSIGN(const std::vector<exec::FoundNetwork> all,
                executor_.ListNetworks());
  std::set<std::string> allocations;
  std::set<std::string> links;
  MOUNTD_ASSIGN(const std::vector<NetworkRecord> records,
                store_.networks.ListNetworks());
  for (const NetworkRecord& record : records) {
    allocations.insert(record.allocation);
    if (netns::HasAddress(record)) {
      links.insert(netns::LinkNameOf(record));
    }
  }
  MOUNTD_ASSIGN(const std::vector<QuarantineRecord> dying,
                store_.networks.ListQuarantine());
  for (const QuarantineRecord& record : dying) {
    links.insert(netns::LinkNameOf(record));
  }
  for (const exec::FoundNetwork& one : all) {
    const NetworkRecord record = RecordOf(one, config_);
    // A namespace without a link is new only if its allocation has no record at
    // all.
    const bool fresh = record.mode == NetworkMode::kBridge
                           ? links.insert(netns::LinkNameOf(record)).second
                           : !allocations.contains(record.allocation);
    if (!fresh) {
      continue;
    }
    if (record.netns_inode != 0) {
      allocations.insert(record.allocation);
    }
    MOUNTD_TRY(RecordFound(record));
  }
  return Ok();
}

Result<void> Networks::RecordFound(const NetworkRecord& record) {
  spdlog::warn(
      "recovery: network {}/{} has no record; mountd keeps it until its "
      "allocation is released",
      record.allocation, record.interface);
  if (record.netns_inode == 0) {
    // The link's namespace is ending, or belongs to no allocation.
    return record.mode == NetworkMode::kBridge
               ? store_.networks.QuarantineNetwork(record)
               : Ok();
  }
  return store_.networks.AddNetwork(record);
}

}  // namespace mountd
