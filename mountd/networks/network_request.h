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
  netns::Ipv4 ipv4{};                // the wanted addresses; none: any
  netns::Ipv6 ipv6{};
  bool isolated = false;
  // Nothing: only the first network has a default route.
  std::optional<bool> default_route{};
  NetworkFiles files{};
  CniSettings cni{};  // kCni only
};

// Returns those members of a NetworkRequest or NetworkRecord that a record
// keeps as the caller asked for them. The ports are an exception: a record's
// ports lose protocols that were to be mapped only if they are free
// (AsAskedFor). Other members may differ from the request, because an absent
// address or default route leaves the choice to mountd.
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
      0;  // the caller; the caller's user namespace must own the namespace
  bool may_be_hosts = false;  // the host's user namespace may own it, too
  int keeper = -1;            // pidfd of a process of the caller
  bool valid() const { return fd >= 0; }
};

// The answer of SetupNetwork. The answer comes from the record alone, so it is
// the same before and after a restart.
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

// Returns the request with defaults filled in. InvalidArgument if its fields
// contradict one another or are malformed.
Result<NetworkRequest> Normalised(NetworkRequest request);

// Returns the ports of a record as the caller asked for them, with the
// protocols that were to be mapped only if they are free.
std::vector<PortMapping> AsAskedFor(std::vector<PortMapping> ports);

// Returns whether the record is what the request asks for. A request without a
// default route matches a record with or without one.
bool IsSame(const NetworkRecord& record, const NetworkRequest& request);

// FailedPrecondition, with the reason, if the request cannot be combined with
// the allocation's other networks. Examples are a namespace beside the host's
// namespace, and two different namespaces.
Result<void> CheckGoesWith(const std::string& allocation,
                           const NetworkRequest& request,
                           const GivenNetns& given,
                           const std::vector<NetworkRecord>& others);

}  // namespace mountd
