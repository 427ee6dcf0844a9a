// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/result.h"
#include "mountd/exec/kernel.h"
#include "netns/netlink.h"

namespace mountd::netns {

// Docker and others have iptables' chain FORWARD drop what no rule accepts, and
// what one table drops no other can let pass. Where that chain is, in the table
// `filter` of IPv4 or IPv6, two rules at its beginning accept what comes from
// or goes to allocations: the own table decides about these. With `wanted` they
// are put there if they are missing, else taken away if they are there; none
// other is touched. They are known by their comments.
Result<void> PrepareForwardRules(exec::Kernel& kernel, Channel* nft,
                                 bool wanted);

}  // namespace mountd::netns
