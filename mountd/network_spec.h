// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/network_files.h"
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
  CniSettings cni{};  // kCni alone
};

// What a caller passed: a network namespace, and who keeps its ports until they
// are mapped.
struct GivenNetns {
  int fd = -1;
  std::uint64_t inode = 0;
  std::uint32_t owner_uid =
      0;                      // the caller: whose user namespace it must be of
  bool may_be_hosts = false;  // or of the host's
  int keeper = -1;            // a pidfd of a process of the caller's
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
  netns::Ipv4 gateway4{};
  netns::Ipv6 gateway6{};
  std::string mac;  // kCni alone; "" where its plugins did not say
  std::vector<PortMapping> ports;
  bool isolated = false;
  bool default_route = false;
  struct File {
    std::string host_path;
    std::string task_path;
  };
  std::vector<File> files;  // to be mounted into tasks, read-only
  DnsSettings dns;
};

NetworkStatus StatusOf(const NetworkRecord& record);

// Whether its networks are links in a namespace; otherwise they are the
// namespace alone, or none.
bool HasInterface(NetworkMode mode);
// Whether its allocation has a namespace of its own.
bool HasNamespace(NetworkMode mode);

// "none", "host", "bridge", "driver", "cni/<network>".
std::string ModeText(NetworkMode mode, const std::string& network);
struct ParsedMode {
  NetworkMode mode = NetworkMode::kBridge;
  std::string network{};  // kCni alone
};
std::optional<ParsedMode> ParseNetworkMode(std::string_view text);

// The files that the network's making makes, and its end removes.
bool HasFiles(const NetworkRecord& record);
std::vector<NetworkFile> FilesOf(const NetworkRecord& record);

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
