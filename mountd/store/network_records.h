// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mountd/store/string_map.h"
#include "netns/address/address.h"

// The records of allocations' networks. boot.db keeps all of them, so they end
// with the boot.
namespace mountd {

struct PortMapping {
  std::string label;
  std::uint16_t host_port = 0;
  std::uint16_t container_port = 0;
  std::uint8_t protocols = 0;  // exec::Protocol bits
  // The number of consecutive host and container ports.
  std::uint16_t count = 1;
  netns::HostIp host_address{};
  // Protocols that the caller wants only if they are free. In a record,
  // `protocols` contains only those that are mapped.
  std::uint8_t if_free = 0;
  friend bool operator==(const PortMapping&, const PortMapping&) = default;
};

enum class NetworkRecordState : int {
  kCreating = 1,
  kCreated = 2,
  kDeleting = 3,
  kFound = 4,  // was found without a record; removed by the name of its link
};

enum class NetworkMode : int {
  kNone = 1,    // a new namespace with only a loopback interface
  kHost = 2,    // the host's own
  kBridge = 3,  // a routed veth
  kDriver = 4,  // a namespace that the task's driver made
  kCni = 5,     // made by the plugins of a CNI network
};

// The interface name in a record that is only a namespace, or the host's
// network.
inline constexpr char kLoopbackInterface[] = "lo";

// A line of an allocation's hosts file (network_files.h).
struct HostEntry {
  std::string address;
  std::vector<std::string> names;
  friend bool operator==(const HostEntry&, const HostEntry&) = default;
};

// resolv.conf(5)
struct DnsSettings {
  std::vector<std::string> servers{};
  std::vector<std::string> searches{};
  std::vector<std::string> options{};
  bool empty() const { return *this == DnsSettings{}; }
  friend bool operator==(const DnsSettings&, const DnsSettings&) = default;
};

struct NetworkFiles {
  std::string hostname{};
  std::vector<HostEntry> hosts{};  // besides localhost and its own
  DnsSettings dns{};
  bool empty() const { return *this == NetworkFiles{}; }
  friend bool operator==(const NetworkFiles&, const NetworkFiles&) = default;
};

// A request to CNI's plugins, apart from ports and name servers.
struct CniSettings {
  StringMap args{};                   // CNI_ARGS
  std::string mac{};                  // "02:..."; "": any
  std::vector<std::string> ips{};     // "10.0.0.5/24"
  struct Bandwidth {                  // 0: no bound
    std::uint64_t ingress_rate = 0;   // bits in a second
    std::uint64_t ingress_burst = 0;  // bits
    std::uint64_t egress_rate = 0;
    std::uint64_t egress_burst = 0;
    friend bool operator==(const Bandwidth&, const Bandwidth&) = default;
  } bandwidth{};
  friend bool operator==(const CniSettings&, const CniSettings&) = default;
};

// The plugins' result. Addresses and gateways may be absent.
struct CniResult {
  netns::Ipv4 ipv4{};
  netns::Ipv6 ipv6{};
  netns::Ipv4 gateway4{};
  netns::Ipv6 gateway6{};
  std::string mac{};
  DnsSettings dns{};
  // Use `dns` for resolv.conf; otherwise the agent's settings count.
  bool makes_resolv_conf = false;
  friend bool operator==(const CniResult&, const CniResult&) = default;
};

// One network of an allocation. Its interface identifies it. All networks of an
// allocation share one namespace.
struct NetworkRecord {
  std::string allocation;
  std::string interface;
  NetworkMode mode = NetworkMode::kBridge;
  std::string network{};  // kBridge: the configuration's; kCni: CNI's
  netns::Ipv4 ipv4{};     // kBridge alone
  netns::Ipv6 ipv6{};
  std::uint32_t flags = 0;  // exec::NetworkFlag
  std::vector<PortMapping> ports{};
  NetworkRecordState state = NetworkRecordState::kCreating;
  std::uint64_t netns_inode = 0;
  // The caller passed it, so mountd does not remove it.
  bool netns_given = false;
  NetworkFiles files{};    // mountd writes them with the network
  CniSettings cni{};       // kCni only
  CniResult cni_result{};  // kCni only, once created
  // The ports of an update that is under way, or whose outcome is unknown.
  // `ports` has the old ones until the update is done.
  std::optional<std::vector<PortMapping>> next_ports{};
  // True if this network was found without a record and a call took it over. So
  // other records of the allocation may be lost, too.
  bool taken_over = false;
};

// Addresses that mountd does not give out, because their link is still ending.
struct QuarantineRecord {
  std::string network;
  netns::Ipv4 ipv4{};
  netns::Ipv6 ipv6{};
  std::string allocation;  // the allocation that had the addresses before
  std::uint64_t netns_inode = 0;
};

}  // namespace mountd
