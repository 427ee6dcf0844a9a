// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <memory>
#include <string>

#include "bench/network_way.h"
#include "bench/raw_netlink.h"
#include "bench/report.h"

namespace mountd::bench {

using SetupParts = std::map<std::string, Samples>;

class NetworkFloor : public NetworkWay {
 public:
  // What its SetUp with so many ports was made of until now.
  virtual const SetupParts& parts(int ports) = 0;
};

// The floor under any routed veth: its netlink and nf_tables messages in as few
// calls as there can be, with a namespace that is ready, and nothing recorded,
// checked, pinned or answered. In the calling thread's namespace, beside
// mountd's own networks.
Result<std::unique_ptr<NetworkFloor>> ByMessages(LinkWatch& links);

}  // namespace mountd::bench
