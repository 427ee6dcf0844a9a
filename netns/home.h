// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/exec/plan.h"
#include "netns/namespace_pool.h"
#include "netns/netlink.h"
#include "netns/pin.h"

// The namespace that a network goes into, and how an executor comes to it.
namespace mountd::netns {

struct Home {
  UniqueFd own;
  Channel inside;  // rtnetlink
  int fd = -1;     // `own`, or the caller's
};

// From the pool.
Result<Home> NewHome(exec::Kernel& kernel, NamespacePool* pool);

// One that a caller passed. InvalidArgument for what is no network namespace;
// PermissionDenied for the host's own, for another allocation's, and for one
// whose user namespace is neither the owner's nor, if `of_root`, the host's.
Result<Home> GivenHome(exec::Kernel& kernel, const exec::NetworkPlan& plan,
                       const PinPlace& place, int fd, bool of_root);

// The allocation's own, pinned earlier. FailedPrecondition if another is.
Result<Home> PinnedHome(exec::Kernel& kernel, const exec::NetworkPlan& plan,
                        const PinPlace& place);

}  // namespace mountd::netns
