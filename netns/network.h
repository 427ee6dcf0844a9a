// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/config.h"
#include "mountd/exec/kernel.h"
#include "mountd/exec/plan.h"

// One allocation's network: namespace, veth, addresses, port maps. All
// functions run in the executor's only thread, take plans whose fields were
// checked (exec/invariants.h), and keep no state but what is in the kernel.
namespace mountd::netns {

struct Context {
  exec::Kernel& kernel;
  const Config& config;
};

// /run/netns, the ruleset, forwarding, the host's own addresses. Idempotent.
Result<void> PrepareNetworks(const Context& context);

// All or nothing. The same plan again answers what is there. AlreadyExists
// names a host port that is mapped already; FailedPrecondition: another
// namespace has the name; Busy: the link of the address's last user is not gone
// yet.
Result<exec::NetworkState> CreateNetwork(const Context& context,
                                         const exec::NetworkPlan& plan);

// From any partial state. The link dies with its namespace soon after; if that
// is still held by someone, a second call deletes the link itself.
// FailedPrecondition, with all else done, if the name is another namespace's.
Result<void> DeleteNetwork(const Context& context,
                           const exec::NetworkPlan& plan);

Result<exec::NetworkState> InspectNetwork(const Context& context,
                                          const exec::NetworkPlan& plan);

}  // namespace mountd::netns
