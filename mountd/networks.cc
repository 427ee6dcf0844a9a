// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/networks.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "mountd/base/paths.h"
#include "mountd/base/unique_fd.h"
#include "mountd/exec/wire.h"

namespace mountd {
namespace {

exec::NetworkPlan PlanOf(const NetworkRecord& record) {
  exec::NetworkPlan plan;
  plan.allocation = exec::ToWire(record.allocation);
  plan.network = exec::ToWire(record.network);
  plan.ipv4 = record.ipv4;
  plan.ipv6 = record.ipv6;
  plan.netns_inode = record.netns_inode;
  plan.port_count = static_cast<std::uint32_t>(
      std::min(record.ports.size(), plan.ports.size()));
  for (std::size_t i = 0; i < plan.port_count; ++i) {
    const PortMapping& port = record.ports.at(i);
    plan.ports.at(i) = {port.host_port, port.container_port, port.protocols, 0};
  }
  return plan;
}

Result<std::vector<PortMapping>> Normalise(std::vector<PortMapping> ports) {
  if (ports.size() > exec::kMaxPorts) {
    return MakeError(
        Code::kResourceExhausted, "map", "ports",
        "at most " + std::to_string(exec::kMaxPorts) + " per allocation");
  }
  for (PortMapping& port : ports) {
    if (port.host_port == 0 || port.protocols == 0) {
      return MakeError(Code::kInvalidArgument, "map", "port",
                       "needs a host port and a protocol");
    }
    if (port.container_port == 0) {
      port.container_port = port.host_port;
    }
  }
  return ports;
}

// Whether a socket of the host listens on the port: binding it tells, without
// reading any table. Privileged ports cannot be tried without a capability; the
// port map then wins over the socket, as it does for any other DNAT.
Result<void> CheckNotListening(const PortMapping& port) {
  const std::pair<std::uint8_t, int> kinds[] = {{exec::kTcp, SOCK_STREAM},
                                                {exec::kUdp, SOCK_DGRAM}};
  for (const auto& [protocol, type] : kinds) {
    if ((port.protocols & protocol) == 0) {
      continue;
    }
    const UniqueFd probe(socket(AF_INET6, type | SOCK_CLOEXEC, 0));
    if (!probe.valid()) {
      continue;
    }
    if (type == SOCK_STREAM) {
      // Connections of an earlier listener in TIME_WAIT are no listener.
      const int on = 1;
      setsockopt(probe.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    }
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port.host_port);
    if (bind(probe.get(), reinterpret_cast<sockaddr*>(&address),
             sizeof(address)) != 0 &&
        errno == EADDRINUSE) {
      return ErrnoError(EADDRINUSE, "map",
                        "host port " + std::to_string(port.host_port),
                        "a socket of the host listens on it");
    }
  }
  return Ok();
}

}  // namespace

NetworkStatus StatusOf(const NetworkRecord& record) {
  NetworkStatus status;
  status.network = record.network;
  status.netns_path = std::string(paths::kNetnsDir) + "/" + record.allocation;
  status.netns_inode = record.netns_inode;
  status.interface = netns::kAllocationLink;
  status.host_interface = netns::HostLinkName(record.ipv4);
  status.ipv4 = record.ipv4;
  status.ipv6 = record.ipv6;
  status.ports = record.ports;
  return status;
}

Networks::Networks(const Config& config, exec::Executor& executor,
                   store::BootStore& store, std::function<void()> check_again)
    : config_(config),
      executor_(executor),
      store_(store),
      check_again_(std::move(check_again)) {
  for (const auto& [name, network] : config.networks) {
    pools_.emplace(name, netns::Ipam(network.ipv4, network.ipv6));
  }
}

Result<void> Networks::Recover() {
  if (config_.networks.empty()) {
    return Ok();
  }
  MOUNTD_TRY(executor_.PrepareNetworks());
  MOUNTD_ASSIGN(const std::vector<QuarantineRecord> quarantine,
                store_.ListQuarantine());
  MOUNTD_ASSIGN(const std::vector<NetworkRecord> records,
                store_.ListNetworks());
  {
    const std::lock_guard lock(mutex_);
    const auto reserve = [&](const std::string& network,
                             const netns::Ipv4& address) {
      if (const auto pool = pools_.find(network); pool != pools_.end()) {
        pool->second.Reserve(address);
      }
    };
    for (const QuarantineRecord& record : quarantine) {
      reserve(record.network, record.ipv4);
    }
    for (const NetworkRecord& record : records) {
      reserve(record.network, record.ipv4);
    }
  }
  for (const NetworkRecord& record : records) {
    // Nobody was told of a network whose making was cut off: roll it back.
    if (record.state != NetworkRecordState::kCreated) {
      IgnoreBecauseBestEffort(Delete(record));
    }
  }
  if (!quarantine.empty()) {
    check_again_();
  }
  return Ok();
}

Result<netns::AddressPair> Networks::TakeAddress(const std::string& network) {
  const std::lock_guard lock(mutex_);
  const auto pool = pools_.find(network);
  if (pool == pools_.end()) {
    return MakeError(Code::kNotFound, "set up", "network " + network,
                     "is not declared in the configuration");
  }
  return pool->second.Allocate();
}

void Networks::FreeAddress(const std::string& network,
                           const netns::Ipv4& address) {
  const std::lock_guard lock(mutex_);
  if (const auto pool = pools_.find(network); pool != pools_.end()) {
    pool->second.Free(address);
  }
}

Result<NetworkStatus> Networks::Setup(const std::string& allocation,
                                      const NetworkSpec& spec) {
  MOUNTD_ASSIGN(std::vector<PortMapping> ports, Normalise(spec.ports));
  MOUNTD_ASSIGN(const std::optional<NetworkRecord> found,
                store_.GetNetwork(allocation));
  if (found && found->state == NetworkRecordState::kCreated) {
    if (found->network != spec.network || found->ports != ports) {
      return MakeError(Code::kFailedPrecondition, "set up",
                       "network of " + allocation,
                       "exists with other ports or another network");
    }
    return StatusOf(*found);
  }
  if (found) {
    // An earlier attempt that could not be undone: undo it now, then anew.
    MOUNTD_TRY(Delete(*found));
  }
  for (const PortMapping& port : ports) {
    MOUNTD_TRY(CheckNotListening(port));
  }
  MOUNTD_ASSIGN(const netns::AddressPair address, TakeAddress(spec.network));
  NetworkRecord record;
  record.allocation = allocation;
  record.network = spec.network;
  record.ipv4 = address.ipv4;
  record.ipv6 = address.ipv6;
  record.ports = std::move(ports);
  return Create(std::move(record));
}

Result<NetworkStatus> Networks::Create(NetworkRecord record) {
  if (Result<void> added = store_.AddNetwork(record); !added) {
    FreeAddress(record.network, record.ipv4);
    return std::move(added).error();
  }
  Result<exec::NetworkState> created = executor_.CreateNetwork(PlanOf(record));
  if (!created) {
    Error error = std::move(created).error();
    // The plan undid itself, unless its executor died with it: either way the
    // delete finds what is left. What it cannot undo stays recorded, and the
    // next Setup or the release tries again.
    IgnoreBecauseBestEffort(Delete(record));
    return error;
  }
  record.netns_inode = created->netns_inode;
  record.state = NetworkRecordState::kCreated;
  MOUNTD_TRY(store_.SetNetworkState(record.allocation, record.state,
                                    record.netns_inode));
  return StatusOf(record);
}

Result<void> Networks::Delete(const NetworkRecord& record) {
  MOUNTD_TRY(store_.SetNetworkState(
      record.allocation, NetworkRecordState::kDeleting, record.netns_inode));
  MOUNTD_TRY(executor_.DeleteNetwork(PlanOf(record)));
  MOUNTD_TRY(store_.QuarantineNetwork(record));
  check_again_();
  return Ok();
}

Result<void> Networks::Teardown(const std::string& allocation) {
  MOUNTD_ASSIGN(const std::optional<NetworkRecord> found,
                store_.GetNetwork(allocation));
  if (!found) {
    return Ok();
  }
  return Delete(*found);
}

Result<std::optional<NetworkStatus>> Networks::Get(
    const std::string& allocation) {
  MOUNTD_ASSIGN(const std::optional<NetworkRecord> found,
                store_.GetNetwork(allocation));
  if (!found || found->state != NetworkRecordState::kCreated) {
    return std::optional<NetworkStatus>();
  }
  return std::optional<NetworkStatus>(StatusOf(*found));
}

void Networks::ReapQuarantine() {
  const Result<std::vector<QuarantineRecord>> quarantine =
      store_.ListQuarantine();
  if (!quarantine) {
    return;
  }
  bool some_left = false;
  for (const QuarantineRecord& record : *quarantine) {
    NetworkRecord former;
    former.allocation = record.allocation;
    former.network = record.network;
    former.ipv4 = record.ipv4;
    former.netns_inode = record.netns_inode;
    const exec::NetworkPlan plan = PlanOf(former);
    const Result<exec::NetworkState> state = executor_.InspectNetwork(plan);
    if (!state || state->host_ifindex != 0 ||
        !store_.EndQuarantine(record.ipv4)) {
      // A process may hold the namespace: then the link itself is deleted.
      IgnoreBecauseBestEffort(executor_.DeleteNetwork(plan));
      some_left = true;
      continue;
    }
    FreeAddress(record.network, record.ipv4);
  }
  if (some_left) {
    check_again_();
  }
}

std::map<std::string, Networks::Usage> Networks::GetUsage() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, Usage> usage;
  for (const auto& [name, pool] : pools_) {
    usage[name] = {pool.capacity(), pool.free_count()};
  }
  return usage;
}

}  // namespace mountd
