// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/ipc/frame_socket.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <span>
#include <utility>

#include "mountd/base/fd_message.h"

namespace mountd::csi::ipc {
namespace {

constexpr std::uint32_t kFlagFd = 1;
constexpr std::size_t kReadChunk = std::size_t{64} << 10U;
// Bounds one call, so that a busy peer does not keep a loop from its other
// peers.
constexpr std::size_t kMaxReadPerCall = std::size_t{1} << 20U;

Error Broken(std::string detail) {
  return MakeError(Code::kAborted, "frame", "", std::move(detail));
}

void PutU32(std::uint32_t value, std::uint8_t* to) {
  for (unsigned i = 0; i < 4; ++i) {
    to[i] = static_cast<std::uint8_t>(value >> (8U * i));
  }
}

std::uint32_t GetU32(const std::uint8_t* from) {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < 4; ++i) {
    value |= std::uint32_t{from[i]} << (8U * i);
  }
  return value;
}

}  // namespace

FrameSocket::FrameSocket(UniqueFd socket, AcceptFds accept_fds)
    : socket_(std::move(socket)), accept_fds_(accept_fds) {
  // Non-blocking, because Receive may read once more than there is, Flush
  // writes until EAGAIN, and the loop that calls both must not wait.
  const int flags = ::fcntl(socket_.get(), F_GETFL);
  if (flags >= 0) {
    ::fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK);
  }
}

Result<void> FrameSocket::Receive(std::vector<Frame>* frames) {
  for (std::size_t total = 0; total < kMaxReadPerCall; total += kReadChunk) {
    MOUNTD_ASSIGN(const bool more, ReceiveSome());
    MOUNTD_TRY(TakeFrames(frames));
    if (!more) {
      break;
    }
  }
  return Ok();
}

// Returns whether the read filled its buffer, so that more bytes may wait.
// After false, bytes may be left, too; the loop's next poll(2) reports them.
Result<bool> FrameSocket::ReceiveSome() {
  const std::size_t old_size = incoming_.size();
  incoming_.resize(old_size + kReadChunk);
  Result<Received, int> received =
      ReceiveWithFds(socket_.get(),
                     std::as_writable_bytes(
                         std::span(incoming_.data() + old_size, kReadChunk)),
                     accept_fds_ == AcceptFds::kYes ? 1 : 0);
  incoming_.resize(old_size + (received ? received->size : 0));
  if (!received && received.error() == EAGAIN) {
    return false;
  }
  if (!received) {
    Error error = ErrnoError(received.error(), "recvmsg", "");
    error.code = Code::kUnavailable;
    return error;
  }
  if (received->size == 0) {
    return MakeError(Code::kUnavailable, "recvmsg", "",
                     "the peer closed the connection");
  }
  if (received->more_fds) {
    return Broken("a frame has more fds than allowed");
  }
  std::move(received->fds.begin(), received->fds.end(),
            std::back_inserter(incoming_fds_));
  return received->size == kReadChunk;
}

Result<void> FrameSocket::TakeFrames(std::vector<Frame>* frames) {
  std::size_t at = 0;
  while (incoming_.size() - at >= kHeaderBytes) {
    const std::size_t length = GetU32(incoming_.data() + at);
    const std::uint32_t flags = GetU32(incoming_.data() + at + 4);
    if (length > kMaxPayload || (flags & ~kFlagFd) != 0) {
      return Broken("a frame has a malformed header");
    }
    if (incoming_.size() - at - kHeaderBytes < length) {
      break;
    }
    Frame frame;
    if (flags == kFlagFd) {
      // The fd comes with the header's first byte, so an fd that is missing now
      // will not come.
      if (incoming_fds_.empty()) {
        return Broken("a frame lacks its fd");
      }
      frame.fd = std::move(incoming_fds_.front());
      incoming_fds_.pop_front();
    }
    const auto begin =
        incoming_.begin() + static_cast<std::ptrdiff_t>(at + kHeaderBytes);
    frame.payload.assign(begin, begin + static_cast<std::ptrdiff_t>(length));
    frames->push_back(std::move(frame));
    at += kHeaderBytes + length;
  }
  incoming_.erase(incoming_.begin(),
                  incoming_.begin() + static_cast<std::ptrdiff_t>(at));
  // At most one fd may be left, for the frame that is still incomplete.
  if (incoming_fds_.size() > (incoming_.empty() ? 0U : 1U)) {
    return Broken("an fd arrived without a frame");
  }
  return Ok();
}

Result<void> FrameSocket::Queue(Frame frame) {
  if (frame.payload.size() > kMaxPayload) {
    return MakeError(Code::kInvalidArgument, "frame", "",
                     "the frame is too large");
  }
  Outgoing out;
  out.bytes.resize(kHeaderBytes + frame.payload.size());
  PutU32(static_cast<std::uint32_t>(frame.payload.size()), out.bytes.data());
  PutU32(frame.fd.valid() ? kFlagFd : 0U, out.bytes.data() + 4);
  std::copy(frame.payload.begin(), frame.payload.end(),
            out.bytes.begin() + kHeaderBytes);
  out.fd = std::move(frame.fd);
  queued_bytes_ += out.bytes.size();
  outgoing_.push_back(std::move(out));
  return Ok();
}

Result<void> FrameSocket::Flush() {
  while (!outgoing_.empty()) {
    Outgoing& out = outgoing_.front();
    const int fd = out.fd.get();
    const auto sent = SendWithFds(
        socket_.get(), std::as_bytes(std::span(out.bytes).subspan(out.sent)),
        std::span(&fd, out.fd.valid() ? 1U : 0U));
    // EAGAIN: the peer reads more slowly. The loop flushes again once poll(2)
    // says that there is room.
    if (!sent && sent.error() == EAGAIN) {
      return Ok();
    }
    if (!sent) {
      Error error = ErrnoError(sent.error(), "sendmsg", "");
      error.code = Code::kUnavailable;
      return error;
    }
    // The first bytes carried the fd, so the next write sends none.
    out.fd.reset();
    out.sent += *sent;
    if (out.sent == out.bytes.size()) {
      queued_bytes_ -= out.bytes.size();
      outgoing_.pop_front();
    }
  }
  return Ok();
}

}  // namespace mountd::csi::ipc
