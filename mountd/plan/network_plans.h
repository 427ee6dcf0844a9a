// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mountd/plan/values.h"

// The plans about allocations' networks, network files and CNI networks, and
// their replies.
namespace mountd::exec {

inline constexpr std::size_t kMaxPorts = 128;

// Maps `count` consecutive host ports to as many container ports, in order. A
// plan has at most kMaxPortsInAll ports.
struct PortMap {
  std::uint16_t host_port = 0;       // host byte order
  std::uint16_t container_port = 0;  // host byte order
  std::uint8_t protocols = 0;        // Protocol bits
  std::uint8_t host_family = 0;      // 4, 6; 0: any
  std::uint16_t count = 1;
  // The host's address; IPv4 uses the first four bytes. All zero: any address
  // of the family.
  std::array<std::uint8_t, 16> host_address{};
  // The protocols among `protocols` that kCreateNetwork and kUpdatePorts skip
  // if the port is not free.
  std::uint8_t if_free = 0;
};
inline constexpr std::uint32_t kMaxPortsInAll = 1024;

// The origin of an allocation's network namespace, which also decides who ends
// it.
enum class NamespaceOrigin : std::uint32_t {
  kNew = 1,       // made by the executor
  kGiven = 2,     // passed beside the plan as an fd of nsfs
  kExisting = 3,  // pinned by an earlier plan of the allocation
};

// One network of an allocation: a routed veth in the namespace
// /run/netns/<allocation>, and with `origin` kNew or kGiven that namespace too.
// The executor derives the host end's name, the MAC and the gateway
// (netns/address/address.h). Addresses are in network byte order; all zero
// means none of that family. The addresses must lie in the ranges that the
// root-owned config declares for `network`. A plan without an address concerns
// only the namespace. A plan of kOpenNamespace has only `allocation`,
// `netns_inode` and the origin kExisting.
struct NetworkPlan {
  WireName allocation;
  WireName network;                   // the config's [network.<name>]
  std::array<char, 16> interface {};  // inside the namespace, with a NUL
  std::array<std::uint8_t, 4> ipv4{};
  std::array<std::uint8_t, 16> ipv6{};
  NamespaceOrigin origin = NamespaceOrigin::kNew;
  std::uint32_t flags = 0;  // NetworkFlag
  std::uint32_t port_count = 0;
  std::array<PortMap, kMaxPorts> ports{};
  // The inode of the namespace for kExisting, a repair or an unpin. 0 if no
  // record has the inode, because a create was cut off. An executor must have
  // pinned the namespace in every case (netns/plans/pin.h). With 0 the executor
  // does not touch a namespace of another allocation.
  std::uint64_t netns_inode = 0;
  // The caller. With kGiven the caller's user namespace must own the network
  // namespace. With `may_be_hosts`, and if a rule allows it, the host's user
  // namespace may own it instead.
  std::uint32_t owner_uid = 0;
  std::uint32_t may_be_hosts = 0;
  // CreateNetwork and CheckHostPorts: 1 if the last fd is a pidfd of a process
  // of the caller. That process's sockets on the plan's ports keep those ports
  // for the allocation, so they are no conflict.
  std::uint32_t has_keeper = 0;
};

// Replaces the ports of a network that is there by those of `network`, whose
// origin is kExisting. The executor deletes only maps of `old_ports` that lead
// to the network.
struct PortsPlan {
  NetworkPlan network;
  std::uint32_t old_count = 0;
  std::array<PortMap, kMaxPorts> old_ports{};
};

enum class NetworkFileKind : std::uint32_t {
  kHosts = 1,
  kHostname = 2,
  kResolvConf = 3,
};

// base/d/<allocation>/<kind>. Its content comes as a memfd beside the plan.
struct NetworkFilePlan {
  WireName allocation;
  std::uint32_t uid = 0;  // user who may reach it
  NetworkFileKind kind = NetworkFileKind::kHosts;
};
inline constexpr std::size_t kMaxNetworkFileBytes = std::size_t{128} << 10U;

struct PrepareNetworksPlan {
  std::uint32_t anew = 0;  // 1: also restore rules that somebody has changed
};

// The kind of netlink socket that WatchNetworks returns. The socket receives
// notifications of changes.
enum class NetworkWatchKind : std::uint32_t {
  kLinks = 1,    // NETLINK_ROUTE: links, addresses, routes, neighbours
  kRuleset = 2,  // NETLINK_NETFILTER: nf_tables
};

struct NetworkWatchPlan {
  NetworkWatchKind kind = NetworkWatchKind::kLinks;
};

enum class CniVerb : std::uint32_t {
  kAdd = 1,
  kCheck = 2,
  kDel = 3,
  kGc = 4,
  kStatus = 5,
  kList = 6,
};

// One operation on CNI networks by mountd-cni-run (netns/cni/options.h), with
// the directories of the root-owned config's [cni]. The memfd beside the plan
// holds the rest of the request as JSON. The returned memfd holds the answer as
// JSON. The executor reads neither.
struct CniPlan {
  CniVerb verb = CniVerb::kList;
  WireName allocation;            // kAdd, kCheck, kDel: the container
  WireName network;               // kAdd, kCheck, kDel and kStatus
  std::uint64_t netns_inode = 0;  // kAdd: inode of /run/netns/<allocation>
};
inline constexpr std::size_t kMaxCniAnswerBytes = std::size_t{2} << 20U;

// The parts that a repair restored.
enum NetworkRepair : std::uint32_t {
  kRepairedLink = 1U << 0U,     // the pair itself
  kRepairedHostEnd = 1U << 1U,  // its state, routes or neighbours
  kRepairedInside = 1U << 2U,   // the same for the allocation's end
  // Port maps, and rules that let its packets pass.
  kRepairedElements = 1U << 3U,
};

struct NetworkState {
  std::uint64_t netns_inode = 0;       // 0: no namespace is pinned at the name
  std::uint32_t host_ifindex = 0;      // 0: no host end of that name
  std::uint32_t elements_present = 0;  // 1: all of its nf_tables elements exist
  std::uint32_t repaired = 0;          // RepairNetwork only: NetworkRepair bits
  // CreateNetwork and UpdatePorts: for each port of the plan those of its
  // `if_free` that are not mapped.
  std::array<std::uint8_t, kMaxPorts> unmapped{};
};

// One network in the answer to ListNetworks. There is one FoundNetwork for each
// link of an allocation, or several if the link has more port maps than one can
// hold, and one for each pinned namespace without a link.
struct FoundNetwork {
  WireName allocation;
  // 0: no namespace of that allocation is pinned
  std::uint64_t netns_inode = 0;
  std::array<std::uint8_t, 4> ipv4{};
  std::array<std::uint8_t, 16> ipv6{};
  std::uint32_t flags = 0;  // kIsolated
  std::uint32_t port_count = 0;
  std::array<PortMap, kMaxPorts> ports{};
};

}  // namespace mountd::exec
