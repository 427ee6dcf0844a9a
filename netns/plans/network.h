// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>

#include "mountd/config/config.h"
#include "mountd/kernel/kernel.h"
#include "mountd/plan/network_plans.h"
#include "netns/plans/namespace_pool.h"
#include "netns/plans/netlink.h"

// One allocation's network: namespace, veth, addresses, port maps. All
// functions run in the executor's only thread and take plans whose fields the
// executor has checked (exec/invariants.h). The functions keep no record of
// what is in the kernel.
namespace mountd::netns {

// Owns what an executor keeps from plan to plan: the host's netlink sockets,
// the device number of nsfs, and namespaces made ahead. The first plan that
// needs a socket opens it. Sockets stay open, because closing one that deleted
// rules waits for an RCU grace period (10 ms).
struct Kept {
  std::optional<Channel> route;
  std::optional<Channel> netfilter;
  std::optional<Channel> sockets;      // sock_diag(7)
  std::optional<Channel> connections;  // dumps only (forget_connections.h)
  std::uint64_t nsfs = 0;
  NamespacePool pool;
};

struct Context {
  exec::Kernel& kernel;
  const Config& config;
  Kept& kept;
  // base/n, which names the pins that are mountd's (netns/plans/pin.h). A plan
  // holds the lock of base/n while it makes or deletes a network, because links
  // and elements are found by name. A plan that mountd gave up must not undo
  // the links and elements of the next attempt.
  int markers;
};

// Prepares /run/netns, the ruleset, forwarding and the host's own addresses.
// Idempotent: restores what somebody removed, and changes nothing else. If the
// argument is true, also restores rules that somebody changed.
Result<void> PrepareNetworks(const Context& context, bool anew);

// The sockets, by inode, of a process of the caller, and the user of that
// process. These sockets keep a port for the allocation, so they do not prevent
// its port map.
struct KeptSockets {
  std::uint32_t uid = 0;
  std::set<std::uint64_t> inodes{};
};

// The descriptors and sockets that came with a plan.
struct Passed {
  int netns = -1;  // set if the plan's origin is kGiven
  const KeptSockets& kept;
};

// AlreadyExists, with EADDRINUSE, if a socket of the host receives what arrives
// at one of the plan's ports, at an address that the port is mapped at; `kept`
// sockets do not count. The error names one such socket and says how to find
// its process. FailedPrecondition if the kernel does not list its sockets
// (netns/plans/host_sockets.h). A socket that is bound later receives nothing,
// because the port leads to the allocation by then.
Result<void> CheckHostPorts(const Context& context,
                            const exec::NetworkPlan& plan,
                            const KeptSockets& kept);
// Does the same check. For a protocol that the plan maps only if it is free
// (if_free), sets its bit in `listened` instead of failing.
Result<void> CheckHostPorts(
    const Context& context, const exec::NetworkPlan& plan,
    const KeptSockets& kept,
    std::array<std::uint8_t, exec::kMaxPorts>* listened);

// Makes the network, all or nothing. The same plan again answers with the
// existing network. Leaves out the protocols that the plan maps only if they
// are free, where they are not free.
//
// AlreadyExists if
//   - a host port is mapped already; the error names the port
//   - a socket listens on one (CheckHostPorts)
//   - the namespace has an interface of that name.
// FailedPrecondition if another namespace or file has the name, or if an
// interrupted plan left something, which DeleteNetwork removes. Busy if the
// link of the address's last user is not gone yet.
Result<void> CreateNetwork(const Context& context,
                           const exec::NetworkPlan& plan, const Passed& passed,
                           const exec::Tell<exec::NetworkState>& tell);

// Deletes the network from any partial state. If the executor made the
// namespace (kNew), the link ends soon after the namespace. If a process still
// keeps the namespace, a second call deletes the link itself. If the namespace
// stays (kGiven, kExisting), this call deletes the link; with kExisting the
// name stays, too. A namespace or file at the name that is not mountd's stays.
// FailedPrecondition, with everything else done, if the plan names a namespace
// and another one is there.
Result<void> DeleteNetwork(const Context& context,
                           const exec::NetworkPlan& plan);

Result<exec::NetworkState> InspectNetwork(const Context& context,
                                          const exec::NetworkPlan& plan);

// Restores in place what others removed or changed: the pair, the host end's
// state, routes and neighbours, whatever is missing at the allocation's end,
// and the elements. FailedPrecondition if the namespace is no longer at its
// name.
Result<exec::NetworkState> RepairNetwork(const Context& context,
                                         const exec::NetworkPlan& plan);

// Returns a socket on which the kernel reports changes: of links, addresses,
// routes and neighbours, or of nf_tables. Any process may read from it.
Result<UniqueFd> WatchNetworks(const Context& context,
                               exec::NetworkWatchKind kind);

// Makes one namespace ahead. Returns false if there are enough.
bool MakeAhead(const Context& context);

}  // namespace mountd::netns
