// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/protocol/message_socket.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace mountd::shim {
namespace {

struct FdsControl {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostFds)> bytes{};
};

Error SocketError(int err, const char* op) {
  Error error = ErrnoError(err, op, "socket of mountd-task-shim");
  error.code = Code::kUnavailable;
  return error;
}

void TakeFdsOf(msghdr* message, std::vector<UniqueFd>* fds) {
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

Result<void> Send(int socket, const Message& message,
                  std::span<const int> fds) {
  if (fds.size() > kMostFds || message.bytes().size() > kMostBytes) {
    return MakeError(Code::kInvalidArgument, "sendmsg",
                     "message of mountd-task-shim", "is too large");
  }
  // iovec wants non-const bytes, but sendmsg(2) does not write to them.
  iovec part = {const_cast<char*>(message.bytes().data()),
                message.bytes().size()};
  FdsControl control;
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.bytes.data();
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? Result<void>(SocketError(errno, "sendmsg")) : Ok();
}

Result<Incoming> Receive(int socket) {
  // A buffer of the message's own size, because 64 KiB on the stack would stay
  // in the memory of each shim.
  ssize_t size = 0;
  bool was_reset = false;
  do {
    size = ::recv(socket, nullptr, 0, MSG_PEEK | MSG_TRUNC);
    // The kernel tells once that the peer has closed without reading all, and
    // then gives what the peer has sent.
  } while (size < 0 && (errno == EINTR || (errno == ECONNRESET &&
                                           !std::exchange(was_reset, true))));
  if (size < 0) {
    return SocketError(errno, "recv");
  }
  std::string buffer(std::min(static_cast<std::size_t>(size), kMostBytes), 0);
  iovec part = {buffer.data(), buffer.size()};
  FdsControl control;
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes.data();
  header.msg_controllen = control.bytes.size();
  do {
    size = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) {
    return SocketError(errno, "recvmsg");
  }
  Incoming incoming;
  TakeFdsOf(&header, &incoming.fds);
  if (size == 0) {
    return incoming;
  }
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return MakeError(Code::kInvalidArgument, "recvmsg",
                     "message of mountd-task-shim", "is too large");
  }
  MOUNTD_ASSIGN(incoming.message, Message::Parse(buffer));
  return incoming;
}

}  // namespace mountd::shim
