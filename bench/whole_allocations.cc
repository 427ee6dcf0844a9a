// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/whole_allocations.h"

#include <chrono>
#include <thread>

#include "bench/agents.h"
#include "bench/mountd_network.h"
#include "bench/network_way.h"

namespace mountd::bench {
namespace {

constexpr int kMakers = 4;

std::string Allocation(int i) { return "present-" + std::to_string(i); }

}  // namespace

Result<void> PublishOwnVolume(agent::Client& client,
                              const std::string& allocation) {
  agent::VolumeSpec volume;
  volume.alias = "data";
  volume.volume = "volume-of-" + allocation;
  volume.plugin = "local";
  MOUNTD_TRY(client.PublishVolume(allocation, volume));
  return Ok();
}

Result<void> StartWhole(agent::Client& client, const std::string& allocation,
                        int first_port) {
  MOUNTD_TRY(client.PrepareAllocation(allocation));
  MOUNTD_TRY(client.SetupNetwork(allocation,
                                 SpecWith(Ports(first_port, kPortsOfWhole))));
  MOUNTD_TRY(PublishOwnVolume(client, allocation));
  for (const char* task : {"server", "sidecar"}) {
    MOUNTD_TRY(client.BindMount(
        allocation, {.task = task,
                     .name = "data",
                     .source_type = agent::SourceType::kVolume,
                     .source = "data",
                     .propagation = agent::Propagation::kHostToTask}));
  }
  return Ok();
}

Result<int> StopWhole(agent::Client& client, const std::string& allocation) {
  constexpr int kTries = 5;
  constexpr std::chrono::milliseconds kPause{10};
  for (int tries = 1;; ++tries) {
    const Result<agent::Receipt> receipt = client.ReleaseAllocation(allocation);
    if (receipt && receipt->node_detached) {
      return tries;
    }
    if (tries == kTries) {
      return receipt ? MakeError(Code::kInternal, "release", allocation,
                                 "its volume is not detached")
                     : receipt.error();
    }
    std::this_thread::sleep_for(kPause);
  }
}

Result<void> CheckWhole(agent::Client& client, const std::string& allocation) {
  MOUNTD_ASSIGN(const agent::AllocationStatus status,
                client.GetAllocation(allocation));
  const bool whole =
      status.networks.size() == 1 && status.volumes.size() == 1 &&
      status.volumes.front().state == "published" &&
      status.mounts.size() == 2 && status.mounts.front().state == "attached" &&
      status.mounts.back().state == "attached";
  return whole ? Ok()
               : Result<void>(MakeError(Code::kInternal, "check", allocation,
                                        "has lost something"));
}

Result<void> Present::Have(int count) {
  MOUNTD_TRY(count > count_ ? Start(count - count_) : Stop(count_ - count));
  count_ = count;
  return Ok();
}

Result<void> Present::Start(int count) {
  MOUNTD_ASSIGN(Agents agents, Agents::Connect(world_, kMakers));
  const auto start = [&](agent::Client& client, int i) {
    const int number = count_ + i;
    return StartWhole(client, Allocation(number),
                      kFirstPort + number * kPortsOfWhole);
  };
  MOUNTD_TRY(agents.ForEach(count, start));
  return Ok();
}

// Stops the last ones.
Result<void> Present::Stop(int count) {
  if (count == 0) {
    return Ok();
  }
  MOUNTD_ASSIGN(Agents agents, Agents::Connect(world_, kMakers));
  const auto stop = [&](agent::Client& client, int i) -> Result<void> {
    MOUNTD_TRY(StopWhole(client, Allocation(count_ - 1 - i)));
    return Ok();
  };
  MOUNTD_TRY(agents.ForEach(count, stop));
  return Ok();
}

Result<void> Present::CheckAll(agent::Client& client) const {
  for (int i = 0; i < count_; ++i) {
    MOUNTD_TRY(CheckWhole(client, Allocation(i)));
  }
  return Ok();
}

}  // namespace mountd::bench
