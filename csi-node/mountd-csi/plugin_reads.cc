// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/mountd-csi/plugin_reads.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <vector>

namespace mountd::csi {
namespace {

constexpr int kPassRights = 83;  // SO_PASSRIGHTS, Linux 6.16

std::atomic<bool> g_fds_may_come = false;

ssize_t RawReceive(int socket, msghdr* message, int flags) {
  return ::syscall(SYS_recvmsg, socket, message, flags);
}

// Returns buffers for at most `size` bytes, because later bytes may bring fds.
std::vector<iovec> FirstOf(const msghdr& message, std::size_t size) {
  std::vector<iovec> parts;
  for (std::size_t i = 0; i < message.msg_iovlen && size > 0; ++i) {
    iovec part = message.msg_iov[i];
    part.iov_len = std::min(part.iov_len, size);
    size -= part.iov_len;
    parts.push_back(part);
  }
  return parts;
}

}  // namespace

ssize_t ReadWithoutFds(int socket, msghdr* message, int flags) {
  msghdr look = *message;
  look.msg_control = nullptr;
  look.msg_controllen = 0;
  // The kernel closes a copy of the fds here. A copy is never the last
  // reference, so that close does not wait.
  const ssize_t size =
      RawReceive(socket, &look, flags | MSG_PEEK | MSG_DONTWAIT);
  if (size >= 0 && (look.msg_flags & MSG_CTRUNC) != 0) {
    // gRPC ends the connection at such an error.
    errno = ECONNRESET;
    return -1;
  }
  message->msg_controllen = 0;
  message->msg_flags = 0;
  if (size <= 0) {
    return size;
  }
  std::vector<iovec> parts = FirstOf(*message, static_cast<std::size_t>(size));
  look.msg_iov = parts.data();
  look.msg_iovlen = parts.size();
  look.msg_flags = 0;
  return RawReceive(socket, &look, flags | MSG_DONTWAIT);
}

void NotePluginSocket(int socket) {
  // Out-of-band bytes may bring fds, too, and MSG_PEEK would not show them.
  constexpr int kInLine = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_OOBINLINE, &kInLine, sizeof(kInLine));
  int passes = 1;
  socklen_t size = sizeof(passes);
  if (::getsockopt(socket, SOL_SOCKET, kPassRights, &passes, &size) != 0 ||
      passes != 0) {
    g_fds_may_come = true;
  }
}

Result<void> CheckReads() {
  return dlsym(RTLD_DEFAULT, "recvmsg") == reinterpret_cast<void*>(&recvmsg)
             ? Ok()
             : Result<void>(
                   MakeError(Code::kInternal, "link", "recvmsg",
                             "libraries use another recvmsg than mountd-csi's, "
                             "so answers have no size limit"));
}

}  // namespace mountd::csi

// Does not look at mountd's own frames, which may bring fds: they are read with
// MSG_CMSG_CLOEXEC.
extern "C" ssize_t recvmsg(int socket, msghdr* message, int flags) {
  const bool is_grpc = (flags & (MSG_CMSG_CLOEXEC | MSG_ERRQUEUE)) == 0;
  return is_grpc && mountd::csi::g_fds_may_come
             ? mountd::csi::ReadWithoutFds(socket, message, flags)
             : mountd::csi::RawReceive(socket, message, flags);
}
