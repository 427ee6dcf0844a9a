// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <span>
#include <string>

#include "mountd/base/unique_fd.h"
#include "mountd/kernel/sys.h"

// The part of the seam to the kernel that deals with sockets and networks.
namespace mountd::exec {

// A network namespace and a route socket in it.
struct NetNamespace {
  UniqueFd fd;
  UniqueFd route;
};

// Sockets, network namespaces, netlink and nf_tables.
class NetworkCalls {
 public:
  virtual ~NetworkCalls() = default;

  // Returns a stream socket connected, without blocking, to the socket file of
  // `file`, which is an O_PATH fd.
  virtual Sys<UniqueFd> ConnectUnix(int file) = 0;
  virtual Sys<ucred> PeerOf(int socket) = 0;
  // Returns a pidfd of the peer's process (SO_PEERPIDFD). ENOPROTOOPT before
  // Linux 6.5. If the process has ended, an error or the pidfd of an ended
  // process.
  virtual Sys<UniqueFd> PeerProcess(int socket) = 0;

  // NewNetNamespace and OpenNetlinkIn end in the network namespace in which
  // they began. If they cannot return to it, they abort the process.
  virtual Sys<NetNamespace> NewNetNamespace() = 0;
  virtual Sys<UniqueFd> OpenNetlinkIn(int netns, int protocol) = 0;
  virtual Sys<UniqueFd> OpenNetlink(int protocol) = 0;
  // Joins the multicast group by NETLINK_ADD_MEMBERSHIP (netlink(7)).
  virtual Sys<void> Subscribe(int netlink, unsigned group) = 0;
  virtual Sys<void> Send(int socket, std::span<const std::byte> bytes) = 0;
  // Reads a queued message. EAGAIN if none is queued.
  virtual Sys<std::size_t> Receive(int socket, std::span<std::byte> into) = 0;
  // Runs one libnftables transaction.
  virtual Sys<void> RunNft(const std::string& commands) = 0;
};

}  // namespace mountd::exec
