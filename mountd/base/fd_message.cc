// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/fd_message.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace mountd {
namespace {

struct Control {
  alignas(cmsghdr)
      std::array<char, CMSG_SPACE(sizeof(int) * kMaxMessageFds)> bytes{};
};

void TakeFds(msghdr* message, std::vector<UniqueFd>* fds) {
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr;
       part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(fd), sizeof(fd));
      fds->emplace_back(fd);
    }
  }
}

}  // namespace

Result<std::size_t, int> SendWithFds(int socket,
                                     std::span<const std::byte> bytes,
                                     std::span<const int> fds, int flags) {
  if (fds.size() > kMaxMessageFds) {
    return EINVAL;
  }
  // iovec wants non-const bytes, but sendmsg(2) does not write to them.
  iovec part = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  Control control;
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
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
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | flags);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) {
    return errno;
  }
  return static_cast<std::size_t>(sent);
}

Result<Received, int> ReceiveWithFds(int socket, std::span<std::byte> into,
                                     std::size_t most_fds) {
  iovec part = {into.data(), into.size()};
  Control control;
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (most_fds > 0) {
    message.msg_control = control.bytes.data();
    message.msg_controllen =
        CMSG_SPACE(sizeof(int) * std::min(most_fds, kMaxMessageFds));
  }
  ssize_t size = 0;
  do {
    size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) {
    return errno;
  }
  Received received;
  received.size = static_cast<std::size_t>(size);
  TakeFds(&message, &received.fds);
  // Alignment pads the control buffer, so the kernel can fit one fd more than
  // an odd `most_fds`. Such an fd counts as too many, because the kernel sets
  // no MSG_CTRUNC for it.
  received.more_fds =
      (message.msg_flags & MSG_CTRUNC) != 0 || received.fds.size() > most_fds;
  return received;
}

bool HasGivenUp(int socket) {
  pollfd peer = {socket, POLLIN | POLLRDHUP, 0};
  return ::poll(&peer, 1, 0) > 0;
}

}  // namespace mountd
