// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/ipc/frame_socket.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace mountd::csi::ipc {
namespace {

constexpr std::uint32_t kFlagFd = 1;
constexpr std::size_t kReadChunk = std::size_t{64} << 10U;
// So that one busy peer does not keep a loop from its others.
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

// True if something was read and there may be more.
Result<bool> FrameSocket::ReceiveSome() {
  const std::size_t old_size = incoming_.size();
  incoming_.resize(old_size + kReadChunk);
  iovec part{incoming_.data() + old_size, kReadChunk};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (accept_fds_ == AcceptFds::kYes) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  const int err = errno;
  incoming_.resize(old_size +
                   static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0 && err == EAGAIN) {
    return false;
  }
  if (got < 0) {
    Error error = ErrnoError(err, "recvmsg", "");
    error.code = Code::kUnavailable;
    return error;
  }
  if (got == 0) {
    return MakeError(Code::kUnavailable, "recvmsg", "", "the peer hung up");
  }
  MOUNTD_TRY(TakeFds(&message));
  return true;
}

// Every fd is owned before anything is judged, so that none can leak.
Result<void> FrameSocket::TakeFds(msghdr* message) {
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr;
       part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      incoming_fds_.emplace_back(fd);
    }
  }
  if ((message->msg_flags & MSG_CTRUNC) != 0) {
    return Broken("more fds than allowed");
  }
  return Ok();
}

Result<void> FrameSocket::TakeFrames(std::vector<Frame>* frames) {
  std::size_t at = 0;
  while (incoming_.size() - at >= kHeaderBytes) {
    const std::size_t length = GetU32(incoming_.data() + at);
    const std::uint32_t flags = GetU32(incoming_.data() + at + 4);
    if (length > kMaxPayload || (flags & ~kFlagFd) != 0) {
      return Broken("bad frame header");
    }
    if (incoming_.size() - at - kHeaderBytes < length) {
      break;
    }
    Frame frame;
    if (flags == kFlagFd) {
      // It came with the header's first byte: missing now is missing for good.
      if (incoming_fds_.empty()) {
        return Broken("a frame's fd is missing");
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
  // At most the frame that is still coming in can own one.
  if (incoming_fds_.size() > (incoming_.empty() ? 0U : 1U)) {
    return Broken("an fd without a frame");
  }
  return Ok();
}

Result<void> FrameSocket::Queue(Frame frame) {
  if (frame.payload.size() > kMaxPayload) {
    return MakeError(Code::kInvalidArgument, "frame", "", "too large");
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
    iovec part{out.bytes.data() + out.sent, out.bytes.size() - out.sent};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (out.fd.valid()) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(sizeof(int));
      const int fd = out.fd.get();
      std::memcpy(CMSG_DATA(rights), &fd, sizeof(int));
    }
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) {
      continue;
    }
    if (sent < 0 && errno == EAGAIN) {
      return Ok();
    }
    if (sent < 0) {
      Error error = ErrnoError(errno, "sendmsg", "");
      error.code = Code::kUnavailable;
      return error;
    }
    out.fd.reset();
    out.sent += static_cast<std::size_t>(sent);
    if (out.sent == out.bytes.size()) {
      queued_bytes_ -= out.bytes.size();
      outgoing_.pop_front();
    }
  }
  return Ok();
}

}  // namespace mountd::csi::ipc
