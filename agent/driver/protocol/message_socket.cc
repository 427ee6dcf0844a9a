// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/protocol/message_socket.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "mountd/base/fd_message.h"

namespace mountd::shim {
namespace {

Error SocketError(int err, const char* op) {
  Error error = ErrnoError(err, op, "socket of mountd-task-shim");
  if (err == ETOOMANYREFS) {
    error.code = Code::kResourceExhausted;
    error.detail =
        "programs of this user have too many file descriptors in flight; end "
        "them, or raise RLIMIT_NOFILE";
  }
  return error;
}

}  // namespace

Result<void> Send(int socket, const Message& message,
                  std::span<const int> fds) {
  if (fds.size() > kMostFds || message.bytes().size() > kMostBytes) {
    return MakeError(Code::kInvalidArgument, "sendmsg",
                     "message of mountd-task-shim", "is too large");
  }
  const Result<std::size_t, int> sent = SendWithFds(
      socket, std::as_bytes(std::span(message.bytes())), fds, MSG_DONTWAIT);
  return sent ? Ok() : Result<void>(SocketError(sent.error(), "sendmsg"));
}

Result<Incoming> Receive(int socket) {
  // A buffer of the message's own size, because 64 KiB on the stack would stay
  // in the memory of each shim.
  ssize_t size = 0;
  bool was_reset = false;
  do {
    size = ::recv(socket, nullptr, 0, MSG_PEEK | MSG_TRUNC);
    // If the peer closed before it read everything, the kernel answers
    // ECONNRESET once, and then delivers the messages that the peer sent.
  } while (size < 0 && (errno == EINTR || (errno == ECONNRESET &&
                                           !std::exchange(was_reset, true))));
  if (size < 0) {
    return SocketError(errno, "recv");
  }
  const auto whole = static_cast<std::size_t>(size);
  std::string buffer(std::min(whole, kMostBytes), 0);
  Result<Received, int> received = ReceiveWithFds(
      socket, std::as_writable_bytes(std::span(buffer)), kMostFds);
  if (!received) {
    return SocketError(received.error(), "recvmsg");
  }
  Incoming incoming;
  incoming.fds = std::move(received->fds);
  if (received->size == 0) {
    return incoming;
  }
  if (whole > kMostBytes || received->more_fds) {
    return MakeError(Code::kInvalidArgument, "recvmsg",
                     "message of mountd-task-shim", "is too large");
  }
  MOUNTD_ASSIGN(incoming.message, Message::Parse(buffer));
  return incoming;
}

}  // namespace mountd::shim
