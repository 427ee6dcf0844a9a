// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/store/records.h"

namespace mountd {

// What a caller asks of SetupNetwork. Empty is the default.
struct NetworkSpec {
  NetworkMode mode = NetworkMode::kBridge;
  std::string network = "default";
  std::string interface {};
  std::vector<PortMapping> ports{};  // container_port 0: as the host port
  netns::Ipv4 ipv4{};                // these, or any
  netns::Ipv6 ipv6{};
  bool isolated = false;
  std::optional<bool> default_route{};  // else the first network has it
  NetworkFiles files{};
};

// A network namespace that a caller passed.
struct GivenNetns {
  int fd = -1;
  std::uint64_t inode = 0;
  std::uint32_t owner_uid = 0;  // who its user namespace must belong to
  bool may_be_hosts = false;    // or to the host
  bool valid() const { return fd >= 0; }
};

// What SetupNetwork answers; the same after any restart, as it is all derived
// from the record.
struct NetworkStatus {
  NetworkMode mode = NetworkMode::kBridge;
  std::string network;
  std::string netns_path;  // "" with the host's
  std::uint64_t netns_inode = 0;
  std::string interface;
  std::string host_interface;
  netns::Ipv4 ipv4{};
  netns::Ipv6 ipv6{};
  std::vector<PortMapping> ports;
  bool isolated = false;
  bool default_route = false;
  struct File {
    std::string host_path;
    std::string task_path;
  };
  std::vector<File> files;  // to be mounted into tasks, read-only
};

NetworkStatus StatusOf(const NetworkRecord& record);

// "none", "host", "bridge", "driver".
const char* NameOf(NetworkMode mode);
std::optional<NetworkMode> ParseNetworkMode(std::string_view name);

// The same with what was left out put in; InvalidArgument for what cannot be.
Result<NetworkSpec> Normalised(NetworkSpec spec);

// Whether the record, with the default route or without, is what the spec asks.
bool IsSame(const NetworkRecord& record, const NetworkSpec& spec);

// FailedPrecondition with the reason if a spec does not go with the networks
// that its allocation has: a namespace of its own beside the host's, or two.
Result<void> CheckGoesWith(const std::string& allocation,
                           const NetworkSpec& spec, const GivenNetns& given,
                           const std::vector<NetworkRecord>& others);

}  // namespace mountd
