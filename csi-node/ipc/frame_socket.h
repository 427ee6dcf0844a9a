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

// Sends and receives frames over a connected SOCK_STREAM unix socket, between
// mountd and mountd-csi. A frame is
//   u32 payload length, u32 flags (little endian; flag 1: an fd comes with it)
// and the payload; the fd travels as SCM_RIGHTS with the header's first byte.
//
// Owns the socket, which is non-blocking. One thread at a time may receive, and
// one thread at a time, which may be another, may queue and flush. Any error
// ends the connection: Aborted if the peer breaks the rules above, Unavailable
// if the peer has gone. Frames already received stay valid.
class FrameSocket {
 public:
  enum class AcceptFds { kNo, kYes };

  // Sets O_NONBLOCK on `socket`.
  FrameSocket(UniqueFd socket, AcceptFds accept_fds);

  int fd() const { return socket_.get(); }

  // Reads the bytes that are there, or a part of them; the socket stays
  // readable while there are more. Appends the complete frames. After an error
  // `frames` holds the frames that came before the error.
  Result<void> Receive(std::vector<Frame>* frames);

  // Queues a frame; Flush sends it. InvalidArgument if the frame is too large.
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
