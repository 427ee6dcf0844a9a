// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/exec/kernel.h"
#include "netns/address.h"
#include "netns/netlink.h"

// The sockets of the host that hear what comes to a port. Asked of the kernel
// in the executor's network namespace, which is the host's: mountd's own is
// another under its unit (PrivateNetwork=).
namespace mountd::netns {

struct HostSocket {
  std::uint16_t port = 0;
  HostIp address;           // any for one of IPv6 that hears IPv4, too
  std::uint32_t uid = 0;    // whose process made it
  std::uint64_t inode = 0;  // of sockfs, as /proc/<pid>/fd shows it
};

// Sockets on a port from `first` to `last`: those of TCP and SCTP that listen,
// those of UDP that are bound and not connected. `protocol` is an IPPROTO_*.
// One dump of sock_diag(7) for each family, whose ports the kernel compares
// itself; where the kernel has none of it (a module that is missing), the
// tables in /proc/net, 16 MiB of each at most. SCTP's are in /proc/net alone.
// `diag` is kept from call to call. FailedPrecondition where neither tells:
// nothing may be taken for free then.
Result<std::vector<HostSocket>> FindHostSockets(exec::Kernel& kernel,
                                                std::optional<Channel>* diag,
                                                std::uint8_t protocol,
                                                std::uint16_t first,
                                                std::uint16_t last);

// What one message of a dump tells (inet_diag_msg); none if it is too short.
std::optional<HostSocket> HostSocketOf(std::span<const std::byte> payload);

// The sockets in /proc/net/tcp, tcp6, udp or udp6 (proc_pid_net(5)) that are in
// `state`, a TCP_*. A line that is none of a socket's is an error: EBADMSG.
Result<std::vector<HostSocket>> HostSocketsOfTable(std::string_view table,
                                                   unsigned state);
// The same of /proc/net/sctp/eps; at any address each.
Result<std::vector<HostSocket>> HostSocketsOfEndpoints(std::string_view table);

}  // namespace mountd::netns
