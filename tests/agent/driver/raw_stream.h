// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "agent/driver/exec_stream.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver::testing {

// A stream of raw exec whose caller is the test.
class RawStream final : public RawExecStream {
 public:
  // ---- The driver's end -----------------------------------------------------

  Result<void> Send(const ExecResponse& response) override {
    const std::lock_guard lock(mutex_);
    if (is_broken_) {
      return MakeError(Code::kUnavailable, "send", "stream", "it broke");
    }
    if (response.stdout_data) {
      output_ += response.stdout_data->data;
    }
    if (response.stderr_data) {
      error_ += response.stderr_data->data;
    }
    if (result_) {
      ADD_FAILURE() << "a message after the result";
    }
    result_ = response.result;
    changed_.notify_all();
    return Ok();
  }
  Result<std::optional<ExecRequest>> Receive() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] {
      return !requests_.empty() || is_ended_ || is_broken_ || is_cancelled_;
    });
    if (is_broken_) {
      return MakeError(Code::kUnavailable, "receive", "stream", "it broke");
    }
    if (requests_.empty()) {
      return std::optional<ExecRequest>();
    }
    std::optional<ExecRequest> request = std::move(requests_.front());
    requests_.pop_front();
    return request;
  }
  void Cancel() override {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
    changed_.notify_all();
  }
  int caller_fd() const override { return gone_.get(); }

  // ---- The caller's end -----------------------------------------------------

  void Put(ExecRequest request) {
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(request));
    changed_.notify_all();
  }
  void PutInput(std::string data, bool close = false) {
    ExecRequest request;
    request.stdin_data = ExecData{std::move(data), close};
    Put(std::move(request));
  }
  void PutSize(TerminalSize size) {
    ExecRequest request;
    request.terminal_size = size;
    Put(std::move(request));
  }
  // The caller sends nothing more, and goes on to receive.
  void End() {
    const std::lock_guard lock(mutex_);
    is_ended_ = true;
    changed_.notify_all();
  }
  void Break() {
    ::eventfd_write(gone_.get(), 1);
    const std::lock_guard lock(mutex_);
    is_broken_ = true;
    changed_.notify_all();
  }

  // Waits until the output of stdout is `text`.
  bool AwaitOutput(const std::string& text) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1),
                             [&] { return output_ == text; });
  }
  std::string output() {
    const std::lock_guard lock(mutex_);
    return output_;
  }
  std::string error() {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  std::optional<ExitResult> result() {
    const std::lock_guard lock(mutex_);
    return result_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ExecRequest> requests_;
  std::string output_;
  std::string error_;
  std::optional<ExitResult> result_;
  bool is_ended_ = false;
  bool is_broken_ = false;
  bool is_cancelled_ = false;
  UniqueFd gone_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

}  // namespace mountd::driver::testing
