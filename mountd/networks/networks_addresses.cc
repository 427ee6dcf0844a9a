// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The addresses and host ports that Networks has given out.
#include <algorithm>
#include <limits>
#include <utility>

#include "mountd/networks/networks.h"
#include "mountd/networks/ports_to_table.h"
#include "mountd/plan/protocols.h"

namespace mountd {
namespace {

std::string OwnerOf(const NetworkRecord& record) {
  return record.allocation + "/" + record.interface;
}

// Returns an owner for ports that the kernel may still map for the record,
// besides the ports in the record or instead of them. This owner differs from
// every owner of a record, because no name has a slash.
std::string OtherOwnerOf(const NetworkRecord& record) {
  return OwnerOf(record) + "/";
}

// Takes each of the ports that nobody owns.
void TakeOthers(const std::string& owner, const std::vector<PortMapping>& ports,
                netns::PortTable* table) {
  std::vector<netns::HostPorts> free;
  for (netns::HostPorts one : HostPortsOf(ports)) {
    const std::uint16_t count = std::exchange(one.count, std::uint16_t{1});
    for (std::uint16_t i = 0; i < count; ++i, ++one.first) {
      if (table->AreFree(one)) {
        free.push_back(one);
      }
    }
  }
  IgnoreBecauseBestEffort(table->Take(owner, free));
}

// A port on a host address of one family needs a network address of that
// family.
Result<void> CheckFamilies(const NetworkRecord& record) {
  for (const PortMapping& port : record.ports) {
    if (port.host_address.family == netns::HostIp::Family::kIpv4 &&
        netns::IsNone(record.ipv4)) {
      return MakeError(
          Code::kInvalidArgument, "map", "port " + port.label,
          "network " + record.network +
              " has no IPv4 range; map an IPv6 address or declare a range");
    }
    if (port.host_address.family == netns::HostIp::Family::kIpv6 &&
        netns::IsNone(record.ipv6)) {
      return MakeError(
          Code::kInvalidArgument, "map", "port " + port.label,
          "network " + record.network +
              " has no IPv6 range; map an IPv4 address or declare a range");
    }
  }
  return Ok();
}

}  // namespace

void Networks::TakeRecorded(const std::string& network, const netns::Ipv4& ipv4,
                            const netns::Ipv6& ipv6) {
  const auto pool = pools_.find(network);
  if (pool == pools_.end()) {
    return;
  }
  // An address that the configuration no longer has is in no pool, so taking it
  // fails and may be ignored.
  IgnoreBecauseBestEffort(pool->second.ipv4.Take(ipv4));
  IgnoreBecauseBestEffort(pool->second.ipv6.Take(ipv6));
}

void Networks::TakeRecorded(const std::vector<QuarantineRecord>& quarantine,
                            const std::vector<NetworkRecord>& records) {
  const std::lock_guard lock(mutex_);
  for (const QuarantineRecord& record : quarantine) {
    TakeRecorded(record.network, record.ipv4, record.ipv6);
  }
  for (const NetworkRecord& record : records) {
    if (record.mode == NetworkMode::kBridge) {
      TakeRecorded(record.network, record.ipv4, record.ipv6);
    }
    IgnoreBecauseBestEffort(
        ports_.Take(OwnerOf(record), HostPortsOf(record.ports)));
  }
  // Take these last, because every record's own ports come first.
  for (const NetworkRecord& record : records) {
    if (record.next_ports) {
      TakeOthers(OtherOwnerOf(record), *record.next_ports, &ports_);
    }
  }
}

Result<void> Networks::TakeAddresses(const NetworkRequest& request,
                                     NetworkRecord* record) {
  const auto found = pools_.find(record->network);
  if (found == pools_.end()) {
    return MakeError(Code::kNotFound, "set up", "network " + record->network,
                     "is not declared in mountd.toml");
  }
  Pool& pool = found->second;
  if (!netns::IsNone(request.ipv4)) {
    MOUNTD_TRY(pool.ipv4.Take(request.ipv4));
    record->ipv4 = request.ipv4;
  } else if (!pool.ipv4.empty()) {
    MOUNTD_ASSIGN(record->ipv4, pool.ipv4.Allocate());
  }
  if (!netns::IsNone(request.ipv6)) {
    MOUNTD_TRY(pool.ipv6.Take(request.ipv6));
    record->ipv6 = request.ipv6;
  } else if (!pool.ipv6.empty()) {
    MOUNTD_ASSIGN(record->ipv6, pool.ipv6.Allocate());
  }
  TellIfScarce(record->network, &pool);
  return CheckFamilies(*record);
}

void Networks::DropTakenPorts(NetworkRecord* record) const {
  for (PortMapping& port : record->ports) {
    for (const auto& [bit, protocol] : exec::kProtocolNumbers) {
      if ((port.if_free & bit) != 0 &&
          !ports_.AreFree(
              {protocol, port.host_port, port.count, port.host_address})) {
        port.protocols = static_cast<std::uint8_t>(port.protocols & ~bit);
      }
    }
  }
}

Result<void> Networks::Reserve(const NetworkRequest& request,
                               NetworkRecord* record) {
  const std::lock_guard lock(mutex_);
  DropTakenPorts(record);
  MOUNTD_TRY(ports_.Take(OwnerOf(*record), HostPortsOf(record->ports)));
  if (record->mode != NetworkMode::kBridge) {
    return Ok();
  }
  Result<void> taken = TakeAddresses(request, record);
  if (!taken) {
    ports_.Free(OwnerOf(*record));
    if (const auto pool = pools_.find(record->network); pool != pools_.end()) {
      pool->second.ipv4.Free(record->ipv4);
      pool->second.ipv6.Free(record->ipv6);
    }
  }
  return taken;
}

Result<void> Networks::ReserveNext(const NetworkRecord& old,
                                   NetworkRecord* next) {
  MOUNTD_TRY(CheckFamilies(*next));
  const std::lock_guard lock(mutex_);
  ports_.Free(OwnerOf(old));
  ports_.Free(OtherOwnerOf(old));
  DropTakenPorts(next);
  Result<void> taken = ports_.Take(OwnerOf(*next), HostPortsOf(next->ports));
  if (!taken) {
    IgnoreBecauseBestEffort(ports_.Take(OwnerOf(old), HostPortsOf(old.ports)));
    return taken;
  }
  // Nobody else may get the old ports until the kernel has replaced them,
  // because the network keeps them if the update fails.
  TakeOthers(OtherOwnerOf(old), old.ports, &ports_);
  return Ok();
}

Result<void> Networks::PassPorts(const NetworkRecord& from,
                                 const NetworkRecord& to) {
  const std::lock_guard lock(mutex_);
  // Free the ports first, because both records may have the same ports. Nobody
  // else can take them in between, because this function holds mutex_.
  ports_.Free(OwnerOf(from));
  ports_.Free(OtherOwnerOf(from));
  Result<void> taken = ports_.Take(OwnerOf(to), HostPortsOf(to.ports));
  if (!taken) {
    IgnoreBecauseBestEffort(
        ports_.Take(OwnerOf(from), HostPortsOf(from.ports)));
  }
  return taken;
}

void Networks::FreePorts(const NetworkRecord& record) {
  const std::lock_guard lock(mutex_);
  ports_.Free(OwnerOf(record));
  ports_.Free(OtherOwnerOf(record));
}

void Networks::FreeAddresses(const std::string& network,
                             const netns::Ipv4& ipv4, const netns::Ipv6& ipv6) {
  const std::lock_guard lock(mutex_);
  if (const auto pool = pools_.find(network); pool != pools_.end()) {
    pool->second.ipv4.Free(ipv4);
    pool->second.ipv6.Free(ipv6);
    TellIfScarce(network, &pool->second);
  }
}

Networks::Usage Networks::UsageOf(const Pool& pool) const {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  std::uint64_t capacity = pool.ipv4.capacity();
  std::uint64_t free = pool.ipv4.free_count();
  if (pool.ipv4.empty()) {
    capacity = pool.ipv6.capacity();
    free = pool.ipv6.free_count();
  } else if (!pool.ipv6.empty()) {
    // The network is full when one of its families is full.
    capacity = std::min(capacity, pool.ipv6.capacity());
    free = std::min(free, pool.ipv6.free_count());
  }
  return {static_cast<std::uint32_t>(std::min(capacity, kMost)),
          static_cast<std::uint32_t>(std::min(free, kMost))};
}

void Networks::TellIfScarce(const std::string& network, Pool* pool) {
  constexpr std::uint32_t kScarce = 10;  // few: a tenth
  // Enough again: a fifth, so that it does not report again and again.
  constexpr std::uint32_t kEnough = 5;
  const Usage usage = UsageOf(*pool);
  if (!pool->scarce && usage.free <= usage.capacity / kScarce) {
    pool->scarce = true;
    events_.scarce(network, usage);
  } else if (pool->scarce && usage.free > usage.capacity / kEnough) {
    pool->scarce = false;
  }
}

void Networks::DropOthers(netns::LinkEvents* events) const {
  const auto is_none = [this](const auto& address, auto ranges_of) {
    return std::none_of(config_.networks.begin(), config_.networks.end(),
                        [&](const auto& entry) {
                          const auto& ranges = entry.second.*ranges_of;
                          return std::any_of(ranges.begin(), ranges.end(),
                                             [&](const auto& range) {
                                               return range.Contains(address);
                                             });
                        });
  };
  std::erase_if(events->ipv4, [&](const netns::Ipv4& address) {
    return is_none(address, &NetworkConfig::ipv4);
  });
  std::erase_if(events->ipv6, [&](const netns::Ipv6& address) {
    return is_none(address, &NetworkConfig::ipv6);
  });
}

bool Networks::HasHostAddress(const netns::LinkEvents& events) const {
  const auto any = [](const auto& ranges, const auto& addresses) {
    return std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) {
      return addresses.contains(netns::HostAddress(range));
    });
  };
  return events.overflowed ||
         std::any_of(config_.networks.begin(), config_.networks.end(),
                     [&](const auto& entry) {
                       return any(entry.second.ipv4, events.ipv4) ||
                              any(entry.second.ipv6, events.ipv6);
                     });
}

std::map<std::string, Networks::Usage> Networks::GetUsage() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, Usage> usage;
  for (const auto& [name, pool] : pools_) {
    usage[name] = UsageOf(pool);
  }
  return usage;
}

std::uint32_t Networks::CountFreePorts(std::uint16_t first,
                                       std::uint16_t last) const {
  const std::lock_guard lock(mutex_);
  return ports_.CountFree(first, last);
}

}  // namespace mountd
