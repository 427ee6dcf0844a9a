// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/closer/closer_message.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

namespace mountd::closer {
namespace {

struct ControlOfFds {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostFds)> bytes{};
};

}  // namespace

int Send(int socket, std::span<const std::byte> head,
         std::span<const std::byte> bytes, std::span<const int> fds) {
  if (fds.size() > kMostFds) {
    return EINVAL;
  }
  // iovec wants non-const bytes, but sendmsg(2) does not write to them.
  std::array<iovec, 2> parts = {
      {{const_cast<std::byte*>(head.data()), head.size()},
       {const_cast<std::byte*>(bytes.data()), bytes.size()}}};
  ControlOfFds control;
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  if (!fds.empty()) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? errno : 0;
}

Result<Incoming, int> Receive(int socket, std::span<std::byte> head,
                              std::span<std::byte> bytes, int flags) {
  std::array<iovec, 2> parts = {
      {{head.data(), head.size()}, {bytes.data(), bytes.size()}}};
  ControlOfFds control;
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t size = 0;
  do {
    size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
  } while (size < 0 && errno == EINTR);
  if (size < 0) {
    return errno;
  }
  Incoming incoming;
  incoming.size = static_cast<std::size_t>(size);
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(fd), sizeof(fd));
      incoming.fds.emplace_back(fd);
    }
  }
  return incoming;
}

}  // namespace mountd::closer
