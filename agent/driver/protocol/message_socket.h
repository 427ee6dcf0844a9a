// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "agent/driver/protocol/message.h"
#include "mountd/base/fd_message.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// Sends and receives messages with fds over a SOCK_SEQPACKET Unix socket.
namespace mountd::shim {

inline constexpr std::size_t kMostFds = kMaxMessageFds;

// Never blocks. Unavailable if the peer has closed or does not read.
// ResourceExhausted with ETOOMANYREFS if this user has too many fds in flight
// (unix(7)); the caller can then send the message without fds.
Result<void> Send(int socket, const Message& message,
                  std::span<const int> fds = {});

struct Incoming {
  std::optional<Message> message;  // nothing: the peer has closed
  std::vector<UniqueFd> fds;
};

// Blocks, unless the socket is non-blocking. A non-blocking socket without a
// message answers Unavailable with EAGAIN. Errors as Message::Parse.
// InvalidArgument for more than kMostBytes or kMostFds.
Result<Incoming> Receive(int socket);

}  // namespace mountd::shim
