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
  // Returns the times of the parts of each SetUp with so many ports.
  virtual const SetupParts& parts(int ports) = 0;
};

// Measures the floor under any routed veth: its netlink and nf_tables messages
// in as few calls as possible. The namespace is ready, and nothing is recorded,
// checked, pinned or answered. Runs in the calling thread's namespace, beside
// mountd's own networks.
Result<std::unique_ptr<NetworkFloor>> ByMessages(LinkWatch& links);

}  // namespace mountd::bench
