// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mountd/base/result.h"
#include "netns/address.h"

// The sockets that hear what comes to the host, told by the kernel at once for
// as many ports as there are (sock_diag(7)). Anybody may ask.
namespace mountd::netns {

struct HostSocket {
  std::uint16_t port = 0;
  HostIp address;  // any for one of IPv6 that hears IPv4, too
};

// Of this network namespace, on a port from `first` to `last`: those of TCP
// that listen, or of UDP that are bound and not connected. `protocol` is
// IPPROTO_TCP or IPPROTO_UDP. Fails where the kernel has no inet_diag.
Result<std::vector<HostSocket>> FindHostSockets(std::uint8_t protocol,
                                                std::uint16_t first,
                                                std::uint16_t last);

// Adds what one datagram of the kernel's answer tells, which is aligned as a
// nlmsghdr; true if it is the last one. Fails with what the kernel says.
Result<bool> TakeHostSockets(std::span<std::byte> datagram,
                             std::vector<HostSocket>* sockets);

}  // namespace mountd::netns
