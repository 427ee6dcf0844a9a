// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// Bytes with fds beside them over a Unix socket, unix(7) SCM_RIGHTS. EINTR is
// tried again; the errors are errnos.
namespace mountd {

inline constexpr std::size_t kMaxMessageFds = 2;

// sendmsg(2), without SIGPIPE; `fds` are kMaxMessageFds at most. How many bytes
// were sent.
Result<std::size_t, int> SendWithFds(int socket,
                                     std::span<const std::byte> bytes,
                                     std::span<const int> fds, int flags = 0);

struct Received {
  std::size_t size = 0;  // 0: the peer has closed
  std::vector<UniqueFd> fds;
  bool more_fds = false;  // than `most_fds`: the kernel has closed those
};

// recvmsg(2). Every fd that came is owned by the answer.
Result<Received, int> ReceiveWithFds(int socket, std::span<std::byte> into,
                                     std::size_t most_fds);

// Whether the peer, who is to wait for an answer, does not: it has closed, or
// sent something else. Never blocks.
bool HasGivenUp(int socket);

}  // namespace mountd
