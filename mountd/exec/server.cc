// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/exec/server.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace mountd::exec {
namespace {

Result<void> SendAnswer(int socket, const Dispatcher::Answer& answer) {
  Reply reply = answer.reply;
  iovec part = {&reply, sizeof(reply)};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  if (answer.fd.valid()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = answer.fd.get();
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) {
      return ErrnoError(errno, "sendmsg", "reply");
    }
  }
  return Ok();
}

bool HasHungUp(int socket) {
  pollfd peer = {socket, POLLRDHUP, 0};
  return ::poll(&peer, 1, 0) > 0;
}

}  // namespace

Result<void> CheckPeer(int socket, uid_t allowed) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
    return ErrnoError(errno, "getsockopt", "peer");
  }
  if (peer.uid != allowed) {
    return MakeError(Code::kPermissionDenied, "check peer",
                     "uid " + std::to_string(peer.uid));
  }
  return Ok();
}

Result<void> Serve(int socket, Dispatcher* dispatcher) {
  // One byte more than a request, so that a longer one is seen to be one. No
  // control buffer: fds sent along are closed by the kernel.
  std::array<std::byte, sizeof(Request) + 1> buffer{};
  for (;;) {
    const ssize_t size = ::recv(socket, buffer.data(), buffer.size(), 0);
    if (size == 0 || (size > 0 && HasHungUp(socket))) {
      return Ok();
    }
    if (size < 0) {
      if (errno == EINTR) {
        continue;
      }
      return ErrnoError(errno, "recv", "request");
    }
    MOUNTD_TRY(dispatcher->Handle(
        std::span(buffer).first(static_cast<std::size_t>(size)),
        [socket](const Dispatcher::Answer& answer) {
          return SendAnswer(socket, answer);
        }));
  }
}

}  // namespace mountd::exec
