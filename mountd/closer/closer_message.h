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
// unix socket. Both ends are one build: the structs cross as they are, and a
// version refuses another build.
namespace mountd::closer {

inline constexpr std::uint32_t kVersion = 1;
// The kernel sends no more fds with one message (SCM_MAX_FD of Linux).
inline constexpr std::size_t kMostFds = 253;
inline constexpr std::size_t kMostBytes = std::size_t{64} << 10U;
// Of one owner's fds that wait to be closed: then nothing more is received for
// it. Only those that stick are ever so many.
inline constexpr std::size_t kMostPending = 256;

enum class Kind : std::uint32_t {
  kBegin,    // fds: mountd's pidfd, and its listening socket
  kAccept,   // a connection of the listening socket, to be held as `id`
  kHold,     // fd: to be held as `id`
  kReceive,  // from the socket held as `id`; fds are held from `first` on
  kDrop,     // close the fd held as `id`
  kRetire,   // close all, and end, although mountd goes on
};

// To mountd-closer. kAccept and kReceive are answered by one Reply.
struct Request {
  std::uint32_t version = kVersion;
  Kind kind = Kind::kBegin;
  std::uint64_t id = 0;
  std::uint64_t first = 0;  // kReceive
  std::uint64_t owner = 0;  // kHold
  std::uint32_t size = 0;   // kReceive: at most so many bytes, kMostBytes
  std::uint32_t unused = 0;
};

// To mountd, with the bytes received behind it. Fds beside it: kAccept's
// connection, or those received fds that `passed` names, in their order.
struct Reply {
  std::uint32_t version = kVersion;
  std::int32_t error = 0;  // an errno, or 0; EDQUOT: kMostPending
  std::uint32_t size = 0;  // of the bytes; 0: the peer has closed
  std::uint32_t fds = 0;   // that came with the bytes
  std::uint32_t pending =
      0;  // fds of the socket's owner that wait to be closed
  std::uint32_t is_full = 0;  // 1: no thread is left to close fds
  std::array<std::uint8_t, (kMostFds + 7) / 8> passed{};

  bool Passes(std::size_t i) const {
    return ((passed.at(i / 8) >> (i % 8)) & 1U) != 0;
  }
  void Pass(std::size_t i) {
    passed.at(i / 8) =
        static_cast<std::uint8_t>(passed.at(i / 8) | (1U << (i % 8)));
  }
};

// Sends one message; at most kMostFds fds. 0, or the errno.
int Send(int socket, std::span<const std::byte> head,
         std::span<const std::byte> bytes, std::span<const int> fds);

struct Incoming {
  std::size_t size = 0;  // 0: the other end has closed
  std::vector<UniqueFd> fds;
};

// recvmsg(2) into `head`, then `bytes`, with room for all fds that can come. An
// errno if nothing was received. Thread-safe.
Result<Incoming, int> Receive(int socket, std::span<std::byte> head,
                              std::span<std::byte> bytes, int flags);

}  // namespace mountd::closer
