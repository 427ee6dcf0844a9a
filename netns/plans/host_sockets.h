// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/kernel/kernel.h"
#include "netns/address/address.h"
#include "netns/plans/netlink.h"

// The host's sockets that receive what arrives at a port. The executor asks the
// kernel in its own network namespace, the host's. mountd cannot, because its
// unit has another one (PrivateNetwork=).
namespace mountd::netns {

struct HostSocket {
  std::uint16_t port = 0;
  HostIp address;           // any for an IPv6 socket that also receives IPv4
  std::uint32_t uid = 0;    // of the process that made it
  std::uint64_t inode = 0;  // in sockfs, as /proc/<pid>/fd shows it
};

// Calls `each` for the sockets on ports from `first` to `last`: listening ones
// of TCP and SCTP, and bound, unconnected ones of UDP. `protocol` is an
// IPPROTO_*. `diag` is kept from call to call. Keeps no socket, because a user
// may have any number of them on one port (SO_REUSEPORT). May call `each` twice
// for a socket, and before a failure.
//
// Makes one dump of sock_diag(7) for each family, in which the kernel compares
// the ports. Where the kernel has no sock_diag (a missing module), and always
// for SCTP, reads the tables in /proc/net, at most 16 MiB of each.
// FailedPrecondition if neither can be read, because no port may count as free
// then.
Result<void> FindHostSockets(
    exec::Kernel& kernel, std::optional<Channel>* diag, std::uint8_t protocol,
    std::uint16_t first, std::uint16_t last,
    const std::function<void(const HostSocket&)>& each);

// Returns the socket of one message of a dump (inet_diag_msg). Empty if the
// message is too short.
std::optional<HostSocket> HostSocketOf(std::span<const std::byte> payload);

// Returns the sockets in /proc/net/tcp, tcp6, udp or udp6 (proc_pid_net(5))
// that are in `state`, a TCP_*. EBADMSG if a line describes no socket.
Result<std::vector<HostSocket>> HostSocketsOfTable(std::string_view table,
                                                   unsigned state);
// Returns the sockets in /proc/net/sctp/eps; each counts for any address.
Result<std::vector<HostSocket>> HostSocketsOfEndpoints(std::string_view table);

}  // namespace mountd::netns
