// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/networks/etc_files.h"
#include "mountd/store/records.h"

namespace mountd {

// The request of SetupNetwork. An empty field means the default.
struct NetworkRequest {
  NetworkMode mode = NetworkMode::kBridge;
  std::string network = "default";
  std::string interface {};
  std::vector<PortMapping> ports{};  // container_port 0: the host port
  netns::Ipv4 ipv4{};                // these addresses, or any
  netns::Ipv6 ipv6{};
  bool isolated = false;
  std::optional<bool> default_route{};  // else only the first network has it
  NetworkFiles files{};
  CniSettings cni{};  // kCni only
};

// Returns the members that a record keeps as they were asked for, of a
// NetworkRequest or of a NetworkRecord. A record's ports lose protocols that
// were to be mapped only if they are free (AsAskedFor). The other members
// depend on the allocation's other networks: an absent address or default route
// is no choice.
template <typename T>
auto AskedFor(T& of) {
  return std::tie(of.mode, of.network, of.ports, of.files, of.cni);
}

// A network namespace that the caller passed, and the process that keeps its
// ports until mountd has mapped them.
struct GivenNetns {
  int fd = -1;
  std::uint64_t inode = 0;
  std::uint32_t owner_uid =
      0;  // the caller; the namespace must be of its user namespace
  bool may_be_hosts = false;  // or of the host's user namespace
  int keeper = -1;            // pidfd of a process of the caller
  bool valid() const { return fd >= 0; }
};

// The answer of SetupNetwork. It comes from the record alone, so it is the same
// after any restart.
struct NetworkStatus {
  NetworkMode mode = NetworkMode::kBridge;
  std::string network;
  std::string netns_path;  // "" for the host's namespace
  std::uint64_t netns_inode = 0;
  std::string interface;
  std::string host_interface;
  netns::Ipv4 ipv4{};
  netns::Ipv6 ipv6{};
  netns::Ipv4 gateway4{};
  netns::Ipv6 gateway6{};
  std::string mac;  // kCni only; "" if its plugins did not say
  std::vector<PortMapping> ports;
  bool isolated = false;
  bool default_route = false;
  struct File {
    std::string host_path;
    std::string task_path;
  };
  std::vector<File> files;  // for tasks to mount read-only
  DnsSettings dns;
};

NetworkStatus StatusOf(const NetworkRecord& record);

// Returns whether networks of this mode are links in a namespace. Other modes
// are only a namespace, or nothing.
bool HasInterface(NetworkMode mode);
// Returns whether an allocation in this mode has a namespace of its own.
bool HasNamespace(NetworkMode mode);

// Returns "none", "host", "bridge", "driver" or "cni/<network>".
std::string ModeText(NetworkMode mode, const std::string& network);
struct ParsedMode {
  NetworkMode mode = NetworkMode::kBridge;
  std::string network{};  // kCni only
};
std::optional<ParsedMode> ParseNetworkMode(std::string_view text);

// The files that mountd makes with the network and removes with it.
bool HasFiles(const NetworkRecord& record);
std::vector<NetworkFile> FilesOf(const NetworkRecord& record);

// Returns the request with defaults filled in. InvalidArgument if it is
// impossible.
Result<NetworkRequest> Normalised(NetworkRequest request);

// Returns the ports of a record as the caller asked for them, with the
// protocols that were to be mapped only if they are free.
std::vector<PortMapping> AsAskedFor(std::vector<PortMapping> ports);

// Returns whether the record is what the request asks for. An unset default
// route in the request matches either.
bool IsSame(const NetworkRecord& record, const NetworkRequest& request);

// FailedPrecondition, with the reason, if the request does not go with the
// allocation's other networks, such as a namespace beside the host's, or two
// namespaces.
Result<void> CheckGoesWith(const std::string& allocation,
                           const NetworkRequest& request,
                           const GivenNetns& given,
                           const std::vector<NetworkRecord>& others);

}  // namespace mountd
