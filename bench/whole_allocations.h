// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/client.h"
#include "bench/world.h"

namespace mountd::bench {

// The number of records of a whole allocation: the allocation, a network with
// four ports, a csi-local volume, its publication, and two mounts of it.
inline constexpr int kRecordsOfWhole = 6;
inline constexpr int kPortsOfWhole = 4;

// Publishes a volume of the allocation's own, by csi-local, as "data".
Result<void> PublishOwnVolume(agent::Client& client,
                              const std::string& allocation);

// Starts an allocation whose host ports begin with `first_port` and whose
// volume has the allocation's name.
Result<void> StartWhole(agent::Client& client, const std::string& allocation,
                        int first_port);
// Returns how many tries the release needed. Repeats a call that failed, as an
// agent does.
Result<int> StopWhole(agent::Client& client, const std::string& allocation);
// Internal if the allocation has lost a part.
Result<void> CheckWhole(agent::Client& client, const std::string& allocation);

// Owns the allocations that exist while something else is measured. Needs
// csi-local.
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

// The first host port of those allocations, and the first that they leave free.
inline constexpr int kFirstPort = 20'100;
inline constexpr int kFirstFreePort = kFirstPort + 1000 * kPortsOfWhole;

}  // namespace mountd::bench
