// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Checks whether the host's own sockets leave a plan its ports. mountd itself
// knows the ports of other allocations (netns/address/port_table.h).
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "mountd/plan/protocols.h"
#include "netns/plans/host_sockets.h"
#include "netns/plans/network.h"

namespace mountd::netns {
namespace {

using exec::PortMap;
using AskedPorts = std::span<const PortMap>;

std::uint16_t LastOf(const PortMap& port) {
  return static_cast<std::uint16_t>(port.host_port + port.count - 1U);
}

HostIp AddressOf(const PortMap& port) {
  return {static_cast<HostIp::Family>(port.host_family), port.host_address};
}

bool Takes(const PortMap& port, std::uint8_t protocol,
           const HostSocket& socket) {
  return (port.protocols & protocol) != 0 && port.host_port <= socket.port &&
         socket.port <= LastOf(port) &&
         Overlap(AddressOf(port), socket.address);
}

// Returns whether the caller keeps this socket. Compares the uid, too, because
// the kernel counts these inodes in 32 bits and another user's socket may have
// the same.
bool IsKept(const KeptSockets& kept, const HostSocket& socket) {
  return kept.uid == socket.uid && kept.inodes.contains(socket.inode);
}

std::string TextOf(const HostSocket& socket) {
  const std::string address = ToString(socket.address);
  const bool ipv6 = socket.address.family == HostIp::Family::kIpv6;
  return (address.empty() ? "*"
          : ipv6          ? "[" + address + "]"
                          : address) +
         ":" + std::to_string(socket.port);
}

Error Listens(std::uint8_t protocol, const HostSocket& socket) {
  std::string name;
  for (const auto& [bit, text] : exec::kProtocolNames) {
    name = bit == protocol ? std::string(text) : name;
  }
  const char* option = protocol == exec::kUdp    ? "u"
                       : protocol == exec::kSctp ? "S"
                                                 : "t";
  return ErrnoError(
      EADDRINUSE, "map",
      "host port " + std::to_string(socket.port) + "/" + name,
      "a socket of the host already listens on " + TextOf(socket) +
          ", of uid " + std::to_string(socket.uid) + "; ss -lnp" + option +
          " 'sport = :" + std::to_string(socket.port) +
          "' names its process; stop that or ask for " + "another port");
}

// The first and the last port that the plan asks for, of one protocol.
struct Bounds {
  std::uint16_t first = UINT16_MAX;
  std::uint16_t last = 0;
};

Bounds BoundsOf(AskedPorts ports, std::uint8_t protocol) {
  Bounds bounds;
  for (const PortMap& port : ports) {
    if ((port.protocols & protocol) != 0) {
      bounds.first = std::min(bounds.first, port.host_port);
      bounds.last = std::max(bounds.last, LastOf(port));
    }
  }
  return bounds;
}

}  // namespace

Result<void> CheckHostPorts(const Context& context,
                            const exec::NetworkPlan& plan,
                            const KeptSockets& kept) {
  exec::NetworkPlan all = plan;
  for (PortMap& port : all.ports) {
    port.if_free = 0;
  }
  std::array<std::uint8_t, exec::kMaxPorts> none{};
  return CheckHostPorts(context, all, kept, &none);
}

Result<void> CheckHostPorts(
    const Context& context, const exec::NetworkPlan& plan,
    const KeptSockets& kept,
    std::array<std::uint8_t, exec::kMaxPorts>* listened) {
  const AskedPorts ports =
      AskedPorts(plan.ports)
          .first(std::min<std::size_t>(plan.port_count, plan.ports.size()));
  for (const auto& [bit, number] : exec::kProtocolNumbers) {
    const auto protocol = static_cast<std::uint8_t>(bit);
    const Bounds bounds = BoundsOf(ports, protocol);
    // The plan asks for no port of this protocol.
    if (bounds.first > bounds.last) {
      continue;
    }
    std::optional<HostSocket> taken;
    MOUNTD_TRY(FindHostSockets(
        context.kernel, &context.kept.sockets, number, bounds.first,
        bounds.last, [&](const HostSocket& socket) {
          for (std::size_t i = 0; i < ports.size(); ++i) {
            if (IsKept(kept, socket) || !Takes(ports[i], protocol, socket)) {
              continue;
            }
            if ((ports[i].if_free & protocol) != 0) {
              listened->at(i) |= protocol;
            } else if (!taken) {
              taken = socket;
            }
          }
        }));
    if (taken) {
      return Listens(protocol, *taken);
    }
  }
  return Ok();
}

}  // namespace mountd::netns
