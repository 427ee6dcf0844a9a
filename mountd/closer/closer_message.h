// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// Messages between mountd and mountd-closer, over a connected SOCK_SEQPACKET
// Unix socket. The structs are sent as they are in memory, because both
// programs come from one build. mountd-closer refuses another version.
namespace mountd::closer {

inline constexpr std::uint32_t kVersion = 1;
// The kernel's own limit of fds in one message (SCM_MAX_FD of Linux).
inline constexpr std::size_t kMostFds = 253;
inline constexpr std::size_t kMostBytes = std::size_t{64} << 10U;
// While more than this number of an owner's fds wait for close(2),
// mountd-closer receives nothing more for that owner. So many wait only if
// close(2) hangs.
inline constexpr std::size_t kMostPending = 256;

enum class Kind : std::uint32_t {
  kBegin,    // fds: mountd's pidfd, and its listening socket
  kAccept,   // accepts a connection of the listening socket, held as `id`
  kHold,     // fd: mountd-closer holds it as `id`
  kReceive,  // reads the socket held as `id`; its fds get ids from `first` on
  kDrop,     // close the fd held as `id`
  kRetire,   // close all fds and end, although mountd goes on
};

// A message to mountd-closer. One Reply answers each kAccept and kReceive.
struct Request {
  std::uint32_t version = kVersion;
  Kind kind = Kind::kBegin;
  std::uint64_t id = 0;
  std::uint64_t first = 0;  // kReceive
  std::uint64_t owner = 0;  // kHold
  // kReceive: read at most so many bytes, up to kMostBytes
  std::uint32_t size = 0;
  std::uint32_t unused = 0;
};

// A message to mountd, followed by the received bytes. Carries kAccept's
// connection, or those received fds that `passed` names, in their order.
struct Reply {
  std::uint32_t version = kVersion;
  std::int32_t error = 0;  // an errno, or 0; EDQUOT: more than kMostPending
  std::uint32_t size = 0;  // number of bytes; 0: the peer has closed
  std::uint32_t fds = 0;   // number of fds that came with the bytes
  std::uint32_t pending =
      0;  // fds of the socket's owner that wait to be closed
  std::uint32_t is_full = 0;  // 1: fds wait and no thread is left to close them
  std::array<std::uint8_t, (kMostFds + 7) / 8> passed{};

  bool Passes(std::size_t i) const {
    return ((passed.at(i / 8) >> (i % 8)) & 1U) != 0;
  }
  void Pass(std::size_t i) {
    passed.at(i / 8) =
        static_cast<std::uint8_t>(passed.at(i / 8) | (1U << (i % 8)));
  }
};

// Sends one message with at most kMostFds fds. Returns 0 or the errno.
int Send(int socket, std::span<const std::byte> head,
         std::span<const std::byte> bytes, std::span<const int> fds);

struct Incoming {
  std::size_t size = 0;  // 0: the other end has closed
  std::vector<UniqueFd> fds;
};

// Receives by recvmsg(2) into `head`, then `bytes`, with room for all fds that
// can come. Returns the errno if nothing was received. Thread-safe.
Result<Incoming, int> Receive(int socket, std::span<std::byte> head,
                              std::span<std::byte> bytes, int flags);

}  // namespace mountd::closer
