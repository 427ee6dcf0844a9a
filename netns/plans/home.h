// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/plan/network_plans.h"
#include "netns/plans/namespace_pool.h"
#include "netns/plans/netlink.h"
#include "netns/plans/pin.h"

// The namespace that a network goes into, and the executor's way into it.
namespace mountd::netns {

struct Home {
  UniqueFd own;
  Channel inside;  // rtnetlink
  int fd = -1;     // `own`, or the caller's
};

// Takes a namespace from the pool.
Result<Home> NewHome(exec::Kernel& kernel, NamespacePool* pool);

// Takes a namespace that a caller passed. InvalidArgument if `fd` is no network
// namespace. PermissionDenied if the namespace is the host's own or another
// allocation's, or if its user namespace belongs neither to the owner nor, with
// `of_root`, to the host.
Result<Home> GivenHome(exec::Kernel& kernel, const exec::NetworkPlan& plan,
                       const PinPlace& place, int fd, bool of_root);

// Opens the allocation's own namespace, which an earlier plan pinned.
// FailedPrecondition if another namespace is pinned.
Result<Home> PinnedHome(exec::Kernel& kernel, const exec::NetworkPlan& plan,
                        const PinPlace& place);

}  // namespace mountd::netns
