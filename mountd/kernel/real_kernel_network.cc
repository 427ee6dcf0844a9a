// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "mountd/base/unix_socket.h"
#include "mountd/kernel/kernel_abi.h"
#include "mountd/kernel/nft_command.h"
#include "mountd/kernel/real_kernel.h"

namespace mountd::exec {
namespace {

// setns(2) moves one thread, so a process's threads may be in different
// namespaces.
constexpr char kOwnNetns[] = "/proc/thread-self/ns/net";

void GoHome(const UniqueFd& home) {
  if (::setns(home.get(), CLONE_NEWNET) < 0) {
    // Abort, because every later plan would act on the wrong network.
    std::abort();
  }
}

}  // namespace

Sys<UniqueFd> RealKernel::ConnectUnix(int file) {
  // Non-blocking, so that a full backlog gives EAGAIN and no wait (connect(2)).
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    return errno;
  }
  // Refuses fds from the plugin, which has none to send. A reader would have to
  // close them, and that close may wait. Older kernels do not know the option.
  constexpr int kSoPassRights = 83;  // SO_PASSRIGHTS, Linux 6.16
  const int no = 0;
  ::setsockopt(fd.get(), SOL_SOCKET, kSoPassRights, &no, sizeof(no));
  const int err =
      mountd::ConnectUnix(fd.get(), "/proc/self/fd/" + std::to_string(file));
  if (err != 0) {
    return err;
  }
  return fd;
}

Sys<ucred> RealKernel::PeerOf(int socket) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
    return errno;
  }
  return peer;
}

Sys<UniqueFd> RealKernel::PeerProcess(int socket) {
  int pidfd = -1;
  socklen_t size = sizeof(pidfd);
  if (::getsockopt(socket, SOL_SOCKET, abi::kSoPeerPidfd, &pidfd, &size) < 0) {
    return errno;
  }
  return UniqueFd(pidfd);
}

Sys<NetNamespace> RealKernel::NewNetNamespace() {
  // Open the old namespace first, because after unshare(2) this name leads to
  // the new namespace.
  const UniqueFd home(::open(kOwnNetns, O_RDONLY | O_CLOEXEC));
  if (!home.valid() || ::unshare(CLONE_NEWNET) < 0) {
    return errno;
  }
  NetNamespace made;
  made.fd.reset(::open(kOwnNetns, O_RDONLY | O_CLOEXEC));
  int err = made.fd.valid() ? 0 : errno;
  if (err == 0) {
    // Open the socket here, because a socket stays in the namespace that it is
    // made in.
    Sys<UniqueFd> route = OpenNetlink(NETLINK_ROUTE);
    err = route ? 0 : route.error();
    if (route) {
      made.route = std::move(route).value();
    }
  }
  GoHome(home);
  if (err != 0) {
    return err;
  }
  return made;
}

Sys<UniqueFd> RealKernel::OpenNetlinkIn(int netns, int protocol) {
  // A socket belongs for ever to the namespace in which it was made, so this
  // thread enters that namespace and returns.
  const UniqueFd home(::open(kOwnNetns, O_RDONLY | O_CLOEXEC));
  if (!home.valid() || ::setns(netns, CLONE_NEWNET) < 0) {
    return errno;
  }
  Sys<UniqueFd> socket = OpenNetlink(protocol);
  GoHome(home);
  return socket;
}

Sys<void> RealKernel::Subscribe(int netlink, unsigned group) {
  // Gives the socket a port first. The kernel sends a notification to all ports
  // except that of the notification's cause, and the kernel itself has port 0.
  // A socket that has sent nothing has port 0 too, and would receive nothing.
  sockaddr_nl own = {};
  socklen_t size = sizeof(own);
  if (::getsockname(netlink, reinterpret_cast<sockaddr*>(&own), &size) < 0) {
    return errno;
  }
  const sockaddr_nl any = {AF_NETLINK, 0, 0, 0};
  if (own.nl_pid == 0 &&
      ::bind(netlink, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) <
          0) {
    return errno;
  }
  return Done(::setsockopt(netlink, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group,
                           sizeof(group)));
}

Sys<UniqueFd> RealKernel::OpenNetlink(int protocol) {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol));
  const int on = 1;
  // Room for the largest plan's batch and its answers, which all come at once.
  // Acknowledgements come without the request's payload.
  // The FORCE options exceed net.core.wmem_max and rmem_max, as CAP_NET_ADMIN
  // permits (socket(7)).
  constexpr int kBufferBytes = 4 * 1024 * 1024;
  if (!fd.valid() ||
      ::setsockopt(fd.get(), SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on)) <
          0 ||
      ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kBufferBytes,
                   sizeof(kBufferBytes)) < 0 ||
      ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kBufferBytes,
                   sizeof(kBufferBytes)) < 0) {
    return errno;
  }
  return fd;
}

Sys<void> RealKernel::Send(int socket, std::span<const std::byte> bytes) {
  const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), 0);
  if (sent < 0) {
    return errno;
  }
  return {};
}

Sys<std::size_t> RealKernel::Receive(int socket, std::span<std::byte> into) {
  const ssize_t size =
      // MSG_TRUNC returns the whole length, so that a cut message is noticed.
      ::recv(socket, into.data(), into.size(), MSG_DONTWAIT | MSG_TRUNC);
  if (size < 0) {
    return errno;
  }
  if (static_cast<std::size_t>(size) > into.size()) {
    return EMSGSIZE;
  }
  return static_cast<std::size_t>(size);
}

Sys<void> RealKernel::RunNft(const std::string& commands) {
  return RunNftCommand(commands);
}

}  // namespace mountd::exec
