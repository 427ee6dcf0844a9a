// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/host_ports.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <utility>

#include "mountd/base/unique_fd.h"
#include "mountd/exec/protocols.h"
#include "netns/host_sockets.h"

namespace mountd {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

// Of any family, the IPv6 socket's: it is IPv4's, too.
SocketAddress AddressOf(const netns::HostIp& host, std::uint16_t port) {
  SocketAddress address;
  if (host.family == netns::HostIp::Family::kIpv4) {
    auto* ipv4 = reinterpret_cast<sockaddr_in*>(&address.storage);
    ipv4->sin_family = AF_INET;
    ipv4->sin_port = htons(port);
    std::copy_n(host.bytes.begin(), sizeof(ipv4->sin_addr),
                reinterpret_cast<std::uint8_t*>(&ipv4->sin_addr));
    address.size = sizeof(*ipv4);
  } else {
    auto* ipv6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
    ipv6->sin6_family = AF_INET6;
    ipv6->sin6_port = htons(port);
    std::copy(host.bytes.begin(), host.bytes.end(),
              &ipv6->sin6_addr.s6_addr[0]);
    address.size = sizeof(*ipv6);
  }
  return address;
}

bool IsBound(const netns::HostIp& host, std::uint16_t port, int type) {
  const SocketAddress address = AddressOf(host, port);
  const UniqueFd probe(
      ::socket(address.storage.ss_family, type | SOCK_CLOEXEC, 0));
  if (!probe.valid()) {
    return false;
  }
  const int on = 1;
  if (type == SOCK_STREAM) {
    // Connections of an earlier listener in TIME_WAIT are no listener.
    ::setsockopt(probe.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  }
  if (host.family == netns::HostIp::Family::kIpv6) {
    ::setsockopt(probe.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  }
  return ::bind(probe.get(),
                reinterpret_cast<const sockaddr*>(&address.storage),
                address.size) != 0 &&
         errno == EADDRINUSE;
}

using netns::HostPorts;

Error Listens(std::uint16_t number) {
  return ErrnoError(EADDRINUSE, "map", "host port " + std::to_string(number),
                    "a socket of the host listens on it");
}

std::uint16_t LastOf(const HostPorts& ports) {
  return static_cast<std::uint16_t>(ports.first + ports.count - 1U);
}

bool Includes(const HostPorts& ports, const netns::HostSocket& socket) {
  return ports.first <= socket.port && socket.port <= LastOf(ports) &&
         netns::Overlap(ports.address, socket.address);
}

Result<void> TryAll(const std::vector<HostPorts>& all, int type) {
  for (const HostPorts& ports : all) {
    for (std::uint32_t i = 0; i < ports.count; ++i) {
      const auto number = static_cast<std::uint16_t>(ports.first + i);
      if (IsBound(ports.address, number, type)) {
        return Listens(number);
      }
    }
  }
  return Ok();
}

// `all` are of one protocol, whose sockets are of `type`.
Result<void> CheckAll(const std::vector<HostPorts>& all, int type) {
  std::uint16_t first = all.front().first;
  std::uint16_t last = LastOf(all.front());
  for (const HostPorts& ports : all) {
    first = std::min(first, ports.first);
    last = std::max(last, LastOf(ports));
  }
  const auto sockets =
      netns::FindHostSockets(all.front().protocol, first, last);
  if (!sockets) {
    return TryAll(all, type);
  }
  for (const netns::HostSocket& socket : *sockets) {
    if (std::ranges::any_of(all, [&](const HostPorts& ports) {
          return Includes(ports, socket);
        })) {
      return Listens(socket.port);
    }
  }
  return Ok();
}

}  // namespace

std::vector<netns::HostPorts> HostPortsOf(
    const std::vector<PortMapping>& ports) {
  std::vector<netns::HostPorts> all;
  for (const PortMapping& port : ports) {
    for (const auto& [bit, protocol] : exec::kProtocolNumbers) {
      if ((port.protocols & bit) != 0) {
        all.push_back(
            {protocol, port.host_port, port.count, port.host_address});
      }
    }
  }
  return all;
}

Result<void> CheckNotListening(const std::vector<PortMapping>& ports) {
  constexpr std::pair<std::uint8_t, int> kKinds[] = {{IPPROTO_TCP, SOCK_STREAM},
                                                     {IPPROTO_UDP, SOCK_DGRAM}};
  const std::vector<HostPorts> all = HostPortsOf(ports);
  for (const auto& [protocol, type] : kKinds) {
    std::vector<HostPorts> some;
    std::ranges::copy_if(all, std::back_inserter(some),
                         [wanted = protocol](const HostPorts& one) {
                           return one.protocol == wanted;
                         });
    if (!some.empty()) {
      MOUNTD_TRY(CheckAll(some, type));
    }
  }
  return Ok();
}

}  // namespace mountd
