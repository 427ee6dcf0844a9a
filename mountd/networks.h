// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/config.h"
#include "mountd/exec/executor.h"
#include "mountd/store/boot_store.h"
#include "netns/ipam.h"

namespace mountd {

// What SetupNetwork answers; the same after any restart, as it is all derived
// from the record.
struct NetworkStatus {
  std::string network;
  std::string netns_path;
  std::uint64_t netns_inode = 0;
  std::string interface;
  std::string host_interface;
  netns::Ipv4 ipv4{};
  netns::Ipv6 ipv6{};
  std::vector<PortMapping> ports;
};

NetworkStatus StatusOf(const NetworkRecord& record);

struct NetworkSpec {
  std::string network = "default";
  std::vector<PortMapping> ports;  // container_port 0: as the host port
};

// Allocations' networks: addresses, host ports, and the plans that make them.
//
//   (none) --AddNetwork--> creating --CreateNetwork--> created
//     ^                        |                          |
//     |                        v                          v
//     +--quarantine over-- quarantined <--DeleteNetwork-- deleting
//
// An intent is written before each plan. Methods block; calls for one
// allocation come one at a time (its strand), of different allocations side by
// side.
class Networks {
 public:
  // `check_again` asks for ReapQuarantine to be called a little later.
  Networks(const Config& config, exec::Executor& executor,
           store::BootStore& store, std::function<void()> check_again);

  // Takes the records' addresses into the pools; finishes or rolls back what
  // was under way. Called once, before anything else.
  Result<void> Recover();

  // Idempotent: the same allocation, the same namespace and addresses. Another
  // spec than the one it has is FailedPrecondition.
  Result<NetworkStatus> Setup(const std::string& allocation,
                              const NetworkSpec& spec);
  Result<void> Teardown(const std::string& allocation);
  Result<std::optional<NetworkStatus>> Get(const std::string& allocation);

  // Frees addresses whose links are gone; asks again while some are left.
  void ReapQuarantine();

  struct Usage {
    std::uint32_t capacity = 0;
    std::uint32_t free = 0;
  };
  std::map<std::string, Usage> GetUsage() const;

 private:
  Result<netns::AddressPair> TakeAddress(const std::string& network);
  void FreeAddress(const std::string& network, const netns::Ipv4& address);
  Result<NetworkStatus> Create(NetworkRecord record);
  Result<void> Delete(const NetworkRecord& record);

  const Config& config_;
  exec::Executor& executor_;
  store::BootStore& store_;
  const std::function<void()> check_again_;
  mutable std::mutex mutex_;
  std::map<std::string, netns::Ipam> pools_;
};

}  // namespace mountd
