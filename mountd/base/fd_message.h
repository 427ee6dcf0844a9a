// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// Sends and receives bytes with fds over a Unix socket (unix(7), SCM_RIGHTS).
// Both calls repeat after EINTR and return errnos as errors.
namespace mountd {

inline constexpr std::size_t kMaxMessageFds = 4;

// Sends by sendmsg(2), without SIGPIPE, and returns the number of bytes sent.
// EINVAL for more than kMaxMessageFds fds.
Result<std::size_t, int> SendWithFds(int socket,
                                     std::span<const std::byte> bytes,
                                     std::span<const int> fds, int flags = 0);

struct Received {
  std::size_t size = 0;  // 0: the peer has closed
  std::vector<UniqueFd> fds;
  // True if more fds came than `most_fds`. The kernel has closed those without
  // room.
  bool more_fds = false;
};

// Receives by recvmsg(2). The answer owns every fd that came.
Result<Received, int> ReceiveWithFds(int socket, std::span<std::byte> into,
                                     std::size_t most_fds);

// Returns whether the peer no longer waits for an answer, because it has closed
// the socket or has sent something else. Never blocks.
bool HasGivenUp(int socket);

}  // namespace mountd
