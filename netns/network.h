// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>

#include "mountd/config.h"
#include "mountd/exec/kernel.h"
#include "mountd/exec/plan.h"
#include "netns/netlink.h"

// One allocation's network: namespace, veth, addresses, port maps. All
// functions run in the executor's only thread, take plans whose fields were
// checked (exec/invariants.h), and keep no record of what is in the kernel.
namespace mountd::netns {

// The host's netlink sockets, opened by the first plan that needs them. Kept,
// as closing one that deleted rules waits for an RCU grace period (10 ms).
struct Sockets {
  std::optional<Channel> route;
  std::optional<Channel> netfilter;
};

struct Context {
  exec::Kernel& kernel;
  const Config& config;
  Sockets& sockets;
  // base/n, which names what is ours (netns/pin.h). Its lock is held while a
  // network is made or deleted: links and elements go by name, and a plan that
  // mountd gave up must not undo those of its next try.
  int markers;
};

// /run/netns, the ruleset, forwarding, the host's own addresses. Idempotent.
Result<void> PrepareNetworks(const Context& context);

// All or nothing. The same plan again answers what is there. AlreadyExists
// names a host port that is mapped already; FailedPrecondition: another
// namespace or file has the name, or an interrupted plan left something, which
// DeleteNetwork takes; Busy: the link of the address's last user is not gone
// yet.
Result<void> CreateNetwork(const Context& context,
                           const exec::NetworkPlan& plan,
                           const exec::Tell<exec::NetworkState>& tell);

// From any partial state. The link dies with its namespace soon after; if that
// is still held by someone, a second call deletes the link itself. A namespace
// or file at the name that is not ours stays; FailedPrecondition, with all else
// done, if the plan names a namespace and another is there.
Result<void> DeleteNetwork(const Context& context,
                           const exec::NetworkPlan& plan);

Result<exec::NetworkState> InspectNetwork(const Context& context,
                                          const exec::NetworkPlan& plan);

}  // namespace mountd::netns
