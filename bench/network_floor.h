// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>

#include "bench/network_way.h"
#include "bench/raw_netlink.h"

namespace mountd::bench {

// The floor under any routed veth: its netlink and nf_tables messages in as few
// calls as there can be, with a namespace that is ready, and nothing recorded,
// checked, pinned or answered. In the calling thread's namespace, beside
// mountd's own networks.
Result<std::unique_ptr<NetworkWay>> ByMessages(LinkWatch& links);

}  // namespace mountd::bench
