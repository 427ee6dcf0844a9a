// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/client/csi_session.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <chrono>
#include <utility>

namespace mountd::csi {
namespace {

using std::chrono::milliseconds;

// mountd-csi answers at the deadline itself, so this only covers its answer's
// way back.
constexpr milliseconds kGrace{250};
// mountd-csi accepts the same numbers for one connection
// (mountd-csi/server.cc).
constexpr std::size_t kMaxInFlight = 1024;
constexpr std::size_t kMaxQueuedBytes = std::size_t{16} << 20U;

RpcError Gone() {
  return RpcError{RpcCode::kUnavailable, "mountd-csi closed the connection",
                  true};
}

}  // namespace

CsiSession::CsiSession(UniqueFd socket, std::function<void()> on_death)
    : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      socket_(std::make_unique<ipc::FrameSocket>(
          std::move(socket), ipc::FrameSocket::AcceptFds::kNo)),
      on_death_(std::move(on_death)) {
  thread_ = std::thread([this] { Run(); });
}

CsiSession::~CsiSession() { Stop(); }

void CsiSession::Stop() {
  stopping_ = true;
  Wake();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void CsiSession::Wake() const {
  // The write fails only if the counter is full, and then the thread is awake
  // anyway (eventfd(2)).
  IgnoreBecauseBestEffort(
      ::eventfd_write(wake_.get(), 1) == 0
          ? Ok()
          : Result<void>(ErrnoError(errno, "eventfd_write", "")));
}

RpcResult<ipc::Reply> CsiSession::Call(ipc::Request request, UniqueFd fd,
                                       Clock::time_point deadline) {
  request.deadline_ms =
      std::chrono::duration_cast<milliseconds>(deadline.time_since_epoch())
          .count();
  Waiter waiter;
  std::unique_lock lock(mutex_);
  if (dead_) {
    return Gone();
  }
  request.id = ++next_id_;
  ipc::Frame frame{ipc::Encode(request), std::move(fd)};
  const std::size_t size = frame.payload.size();
  if (size > ipc::kMaxPayload) {
    return RpcError{RpcCode::kInvalidArgument,
                    "the request is too large for mountd-csi"};
  }
  if (waiters_.size() >= kMaxInFlight ||
      socket_->queued_bytes() + size > kMaxQueuedBytes) {
    return RpcError{
        RpcCode::kResourceExhausted,
        "too many calls are pending at mountd-csi; call again later"};
  }
  waiters_.emplace(request.id, &waiter);
  Send(std::move(frame));
  const bool answered = waiter.answered.wait_until(
      lock, deadline + kGrace, [&] { return waiter.result.has_value(); });
  if (!answered) {
    // The waiter is on this stack, so a late reply must not find it.
    waiters_.erase(request.id);
    return RpcError{RpcCode::kDeadlineExceeded, "mountd-csi does not answer"};
  }
  return std::move(*waiter.result);
}

// Sends on the caller's thread, because the caller would only wait for the
// session's thread to do it. Leaves to that thread what does not fit, and a
// broken connection.
void CsiSession::Send(ipc::Frame frame) {
  broken_ = broken_ || !socket_->Queue(std::move(frame)) || !socket_->Flush();
  if (broken_ || socket_->HasQueued()) {
    Wake();
  }
}

void CsiSession::Run() {
  bool alive = wake_.valid();
  while (alive && !stopping_) {
    std::array<pollfd, 2> fds{};
    fds[0] = {wake_.get(), POLLIN, 0};
    fds[1] = {socket_->fd(), AwaitedEvents(), 0};
    if (::poll(fds.data(), fds.size(), -1) < 0) {
      alive = errno == EINTR;
      continue;
    }
    if (fds[0].revents != 0) {
      eventfd_t count = 0;
      ::eventfd_read(wake_.get(), &count);
    }
    alive = Turn(fds[1].revents);
  }
  FailAll();
  if (!stopping_ && on_death_) {
    on_death_();
  }
  finished_ = true;
}

short CsiSession::AwaitedEvents() {
  const std::lock_guard lock(mutex_);
  // A socket is writable nearly always, so with POLLOUT poll(2) would not wait.
  return socket_->HasQueued() ? POLLIN | POLLOUT : POLLIN;
}

bool CsiSession::Turn(short events) {
  if (!SendQueued()) {
    return false;
  }
  if (events == 0) {
    return true;
  }
  std::vector<ipc::Frame> frames;
  const Result<void> received = socket_->Receive(&frames);
  for (const ipc::Frame& frame : frames) {
    Result<ipc::Reply> reply = ipc::DecodeReply(frame.payload);
    if (!reply || !Deliver(std::move(*reply))) {
      return false;
    }
  }
  return received.has_value();
}

bool CsiSession::SendQueued() {
  const std::lock_guard lock(mutex_);
  return !broken_ && socket_->Flush().has_value();
}

// Ignores an answer whose caller has given up. False if the id was never sent.
bool CsiSession::Deliver(ipc::Reply reply) {
  const std::lock_guard lock(mutex_);
  if (reply.id == 0 || reply.id > next_id_) {
    return false;
  }
  const auto found = waiters_.find(reply.id);
  if (found != waiters_.end()) {
    Waiter* waiter = found->second;
    waiters_.erase(found);
    if (reply.code == RpcCode::kOk) {
      waiter->result.emplace(std::move(reply));
    } else {
      waiter->result.emplace(RpcError{reply.code, std::move(reply.message)});
    }
    waiter->answered.notify_one();
  }
  return true;
}

void CsiSession::FailAll() {
  const std::lock_guard lock(mutex_);
  dead_ = true;
  for (const auto& [id, waiter] : waiters_) {
    waiter->result.emplace(Gone());
    waiter->answered.notify_one();
  }
  waiters_.clear();
  // mountd-csi cancels the calls in flight when it sees the connection close.
  socket_.reset();
}

}  // namespace mountd::csi
