// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi::ipc {

inline constexpr std::size_t kMaxPayload = std::size_t{4} << 20U;
inline constexpr std::size_t kHeaderBytes = 8;

// One message: its bytes (ipc/message.h) and at most one fd.
struct Frame {
  std::vector<std::uint8_t> payload;
  UniqueFd fd;
};

// Frames over a connected SOCK_STREAM unix socket, between mountd and
// mountd-csi. A frame is
//   u32 payload length, u32 flags (little endian; flag 1: an fd comes with it)
// and the payload; the fd travels as SCM_RIGHTS with the header's first byte.
//
// The socket is non-blocking and owned. One thread at a time receives, and one
// at a time, which may be another, queues and flushes. Any error is the end of
// the connection: Aborted for a peer that breaks the rules above, Unavailable
// for one that has gone. Frames already received stay received.
class FrameSocket {
 public:
  enum class AcceptFds { kNo, kYes };

  // Sets O_NONBLOCK on `socket`.
  FrameSocket(UniqueFd socket, AcceptFds accept_fds);

  int fd() const { return socket_.get(); }

  // Reads what is there, or a part of it: as long as there is more the socket
  // is readable. Appends the frames that are complete. After an error `frames`
  // holds what came before.
  Result<void> Receive(std::vector<Frame>* frames);

  // Queues a frame; Flush sends. InvalidArgument if it is too large.
  Result<void> Queue(Frame frame);
  Result<void> Flush();
  bool HasQueued() const { return !outgoing_.empty(); }
  std::size_t queued_bytes() const { return queued_bytes_; }

 private:
  struct Outgoing {
    std::vector<std::uint8_t> bytes;
    std::size_t sent = 0;
    UniqueFd fd;
  };

  Result<bool> ReceiveSome();
  Result<void> TakeFrames(std::vector<Frame>* frames);

  UniqueFd socket_;
  AcceptFds accept_fds_;
  std::vector<std::uint8_t> incoming_;
  std::deque<UniqueFd> incoming_fds_;
  std::deque<Outgoing> outgoing_;
  std::size_t queued_bytes_ = 0;
};

}  // namespace mountd::csi::ipc
