// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/client.h"
#include "bench/world.h"

namespace mountd::bench {

// A whole allocation: itself, a network with four ports, a csi-local volume,
// its publication, and two mounts of it. So many records it is.
inline constexpr int kRecordsOfWhole = 6;
inline constexpr int kPortsOfWhole = 4;

// Its host ports begin with `first_port`; its volume has its name.
Result<void> StartWhole(agent::Client& client, const std::string& allocation,
                        int first_port);
// Answers how often it had to be asked: what failed is asked for again, as an
// agent does.
Result<int> StopWhole(agent::Client& client, const std::string& allocation);
// Internal if it has lost any of it.
Result<void> CheckWhole(agent::Client& client, const std::string& allocation);

// Those that are there while something else is measured. csi-local is needed.
class Present {
 public:
  explicit Present(const World& world) : world_(world) {}

  int count() const { return count_; }
  Result<void> Have(int count);
  Result<void> CheckAll(agent::Client& client) const;

 private:
  Result<void> Start(int count);
  Result<void> Stop(int count);

  const World& world_;
  int count_ = 0;
};

// Of those, and the first that they leave.
inline constexpr int kFirstPort = 20'100;
inline constexpr int kFirstFreePort = kFirstPort + 1000 * kPortsOfWhole;

}  // namespace mountd::bench
