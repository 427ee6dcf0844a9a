// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "bench/agents.h"
#include "bench/raw_netlink.h"

namespace mountd::bench {

// Makes networks of many allocations by all of an agent's connections at once.
// The allocations are "NAME-0" and so on.
class NetworkCrowd {
 public:
  NetworkCrowd(Agents& agents, LinkWatch& links)
      : agents_(agents), links_(links) {}

  Result<void> Prepare(const std::string& name, int count);

  struct Made {
    Spans spans;
    std::vector<std::string> links;
  };
  // Gives each allocation `ports` ports of its own.
  Result<Made> SetUp(const std::string& name, int count, int first_port,
                     int ports);

  struct Ended {
    Spans spans;
    double gone_each;  // microseconds an allocation, until all links are gone
  };
  Result<Ended> TearDown(const std::string& name, const Made& made);

 private:
  Agents& agents_;
  LinkWatch& links_;
};

}  // namespace mountd::bench
