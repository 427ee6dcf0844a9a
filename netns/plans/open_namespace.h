// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/plan/network_plans.h"
#include "netns/plans/network.h"

namespace mountd::netns {

// Returns an fd of the allocation's own namespace, for a caller without a way
// to the pin, and writes to `mount` the identity of the pin's mount, by which
// FindHolders finds processes that have the fd. `mount` stays empty where the
// kernel has no unique mount ids. The namespace lives until its last fd is
// closed. FailedPrecondition if no namespace, or another one, is pinned.
Result<UniqueFd> OpenNamespace(const Context& context,
                               const exec::NetworkPlan& plan,
                               exec::HandedOutMount* mount);

}  // namespace mountd::netns
