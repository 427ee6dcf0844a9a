// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/plugin/exec_call.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "agent/nomad/plugin/call_status.h"
#include "agent/nomad/plugin/replies.h"

namespace mountd::nomad {
namespace {

std::uint16_t Clamp(std::int32_t size) {
  return static_cast<std::uint16_t>(
      std::clamp(size, 0, int{std::numeric_limits<std::uint16_t>::max()}));
}

driver::ExecRequest RequestOf(const wire::ExecTaskStreamingRequest& message) {
  driver::ExecRequest request;
  if (message.has_tty_size()) {
    request.terminal_size = {Clamp(message.tty_size().height()),
                             Clamp(message.tty_size().width())};
  }
  if (message.has_stdin()) {
    request.stdin_data =
        driver::ExecData{message.stdin().data(), message.stdin().close()};
  }
  return request;
}

Error CallEnded(const char* op) {
  return MakeError(Code::kAborted, op, "exec", "the caller has ended the call");
}

}  // namespace

ExecCall::ExecCall(CallThreads& threads, GetDriver get_driver)
    : get_driver_(std::move(get_driver)),
      caller_gone_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!threads.Run([this] { Run(); })) {
    Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "no more threads"});
  }
}

void ExecCall::OnReadDone(bool ok) {
  const std::lock_guard lock(mutex_);
  read_ = ok ? State::kDone : State::kFailed;
  changed_.notify_all();
}

void ExecCall::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  write_ = ok ? State::kDone : State::kFailed;
  changed_.notify_all();
}

void ExecCall::OnCancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  ::eventfd_write(caller_gone_.get(), 1);
  changed_.notify_all();
}

void ExecCall::Cancel() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

bool ExecCall::Read() {
  std::unique_lock lock(mutex_);
  if (read_ == State::kNone) {
    read_ = State::kUnderWay;
    lock.unlock();  // gRPC may answer within the call
    StartRead(&request_);
    lock.lock();
  }
  changed_.wait(lock, [this] {
    return read_ != State::kUnderWay || cancelled_ || ended_;
  });
  if (read_ != State::kDone || cancelled_ || ended_) {
    return false;
  }
  read_ = State::kNone;
  return true;
}

Result<std::optional<driver::ExecRequest>> ExecCall::Receive() {
  if (Read()) {
    return std::optional<driver::ExecRequest>(RequestOf(request_));
  }
  const std::lock_guard lock(mutex_);
  if (cancelled_) {
    return CallEnded("receive");
  }
  return std::optional<driver::ExecRequest>();
}

Result<void> ExecCall::Send(const driver::ExecResponse& response) {
  wire::ExecTaskStreamingResponse message;
  Fill(response, &message);
  std::unique_lock lock(mutex_);
  if (cancelled_) {
    return CallEnded("send");
  }
  write_ = State::kUnderWay;
  lock.unlock();
  StartWrite(&message);
  lock.lock();
  changed_.wait(lock, [this] { return write_ != State::kUnderWay; });
  return write_ == State::kFailed ? Result<void>(CallEnded("send")) : Ok();
}

grpc::Status ExecCall::Exec() {
  if (!Read() || !request_.has_setup()) {
    return {grpc::StatusCode::INVALID_ARGUMENT,
            "the first message of an exec is its setup"};
  }
  const wire::ExecTaskStreamingRequest::Setup setup = request_.setup();
  const auto driver = get_driver_();
  if (!driver) {
    return StatusOf(driver.error());
  }
  return StatusOf(driver::ExecTaskStreamingRaw(
      **driver, setup.task_id(),
      {setup.command().begin(), setup.command().end()}, setup.tty(), *this));
}

void ExecCall::Run() {
  const grpc::Status status = Exec();
  // OnDone may delete this object by now.
  Finish(status);
}

}  // namespace mountd::nomad
