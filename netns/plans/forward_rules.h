// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/result.h"
#include "mountd/kernel/kernel.h"
#include "netns/plans/netlink.h"

namespace mountd::netns {

// Keeps two rules in iptables' chain FORWARD. Docker and other programs make
// that chain drop each packet that none of its rules accepts, and no other
// table can let such a packet pass. The two rules are at the chain's beginning,
// in the table `filter` of IPv4 and IPv6. Both rules accept packets from and to
// allocations, so that mountd's own table decides about these.
//
// With `wanted`, adds the rules where they are missing; otherwise removes them.
// Changes no other rule, and makes no chain. Knows its rules by their comments.
Result<void> PrepareForwardRules(exec::Kernel& kernel, Channel* nft,
                                 bool wanted);

}  // namespace mountd::netns
