// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/exec/server.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

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

// One message with what came beside it; 0 bytes at the end of the input. Fds
// that are more than any plan takes are closed by the kernel.
Result<std::size_t> Receive(int socket, std::span<std::byte> buffer,
                            std::vector<UniqueFd>* fds) {
  iovec part = {buffer.data(), buffer.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxPlanFds)>
      control{};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t size = 0;
  do {
    size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) {
    return ErrnoError(errno, "recvmsg", "request");
  }
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(fd), sizeof(fd));
      fds->emplace_back(fd);
    }
  }
  return static_cast<std::size_t>(size);
}

class Alarm {
 public:
  explicit Alarm(std::chrono::seconds after) {
    ::alarm(static_cast<unsigned>(after.count()));
  }
  ~Alarm() { ::alarm(0); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
};

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

Result<void> Serve(int socket, Dispatcher* dispatcher,
                   std::chrono::seconds longest) {
  // One byte more than a request, so that a longer one is seen to be one.
  std::array<std::byte, sizeof(Request) + 1> buffer{};
  for (;;) {
    std::vector<UniqueFd> fds;
    MOUNTD_ASSIGN(const std::size_t size, Receive(socket, buffer, &fds));
    if (size == 0 || HasHungUp(socket)) {
      return Ok();
    }
    const Alarm alarm(longest);
    MOUNTD_TRY(dispatcher->Handle(std::span(buffer).first(size), fds,
                                  [socket](const Dispatcher::Answer& answer) {
                                    return SendAnswer(socket, answer);
                                  }));
  }
}

}  // namespace mountd::exec
