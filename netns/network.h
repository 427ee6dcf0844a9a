// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "mountd/config.h"
#include "mountd/exec/kernel.h"
#include "mountd/exec/plan.h"
#include "netns/namespace_pool.h"
#include "netns/netlink.h"

// One allocation's network: namespace, veth, addresses, port maps. All
// functions run in the executor's only thread, take plans whose fields were
// checked (exec/invariants.h), and keep no record of what is in the kernel.
namespace mountd::netns {

// What an executor keeps from plan to plan: the host's netlink sockets, opened
// by the first one that needs them, as closing one that deleted rules waits for
// an RCU grace period (10 ms), nsfs' device number, and namespaces that nobody
// has yet.
struct Kept {
  std::optional<Channel> route;
  std::optional<Channel> netfilter;
  std::optional<Channel> sockets;  // sock_diag(7)
  std::uint64_t nsfs = 0;
  NamespacePool pool;
};

struct Context {
  exec::Kernel& kernel;
  const Config& config;
  Kept& kept;
  // base/n, which names what is ours (netns/pin.h). Its lock is held while a
  // network is made or deleted: links and elements go by name, and a plan that
  // mountd gave up must not undo those of its next try.
  int markers;
};

// /run/netns, the ruleset, forwarding, the host's own addresses. Idempotent:
// what is right is left alone, and what was taken away comes back.
// With `anew` also the rules that somebody has changed.
Result<void> PrepareNetworks(const Context& context, bool anew);

// Sockets of a process of the caller's own, by their inodes, and whose they
// are: on a port they keep it for the allocation, and do not stand in its way.
struct KeptSockets {
  std::uint32_t uid = 0;
  std::set<std::uint64_t> inodes{};
};

// What came beside a plan.
struct Passed {
  int netns = -1;  // of a plan whose origin is kGiven
  const KeptSockets& kept;
};

// AlreadyExists, with EADDRINUSE, if a socket of the host but those kept hears
// what comes to one of the plan's ports, at an address that the port is mapped
// at: it names one, and says how to find whose it is. FailedPrecondition where
// the kernel does not tell (netns/host_sockets.h). A socket that is bound later
// hears nothing: the port is the allocation's by then.
Result<void> CheckHostPorts(const Context& context,
                            const exec::NetworkPlan& plan,
                            const KeptSockets& kept);

// All or nothing. The same plan again answers what is there. AlreadyExists
// names a host port that is mapped already, or that a socket listens on, as
// CheckHostPorts does, or says that the interface is there;
// FailedPrecondition: another namespace or file has the name, or an interrupted
// plan left something, which DeleteNetwork takes; Busy: the link of the
// address's last user is not gone yet.
Result<void> CreateNetwork(const Context& context,
                           const exec::NetworkPlan& plan, const Passed& passed,
                           const exec::Tell<exec::NetworkState>& tell);

// From any partial state. Of a namespace of the executor's making (kNew) the
// link dies soon after it; if that is still held by someone, a second call
// deletes the link itself. One that is to stay (kGiven, kExisting) has it
// deleted at once, and with kExisting keeps its name. A namespace or file at
// the name that is not ours stays; FailedPrecondition, with all else done, if
// the plan names a namespace and another is there.
Result<void> DeleteNetwork(const Context& context,
                           const exec::NetworkPlan& plan);

Result<exec::NetworkState> InspectNetwork(const Context& context,
                                          const exec::NetworkPlan& plan);

// Puts right what others have taken away or changed, in place: the pair, the
// host end's state, routes and neighbours, what is missing at the allocation's,
// the elements. FailedPrecondition if the namespace itself is not at its name
// any more.
Result<exec::NetworkState> RepairNetwork(const Context& context,
                                         const exec::NetworkPlan& plan);

// A socket on which the kernel tells of changes: of links, addresses, routes
// and neighbours, or of nf_tables. Anybody may read it.
Result<UniqueFd> WatchNetworks(const Context& context,
                               exec::NetworkWatchKind kind);

// Makes one namespace ahead; false if there are enough.
bool MakeAhead(const Context& context);

}  // namespace mountd::netns
