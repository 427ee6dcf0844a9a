// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "agent/driver/stream.h"
#include "agent/nomad/plugin/call_status.h"
#include "agent/nomad/plugin/call_threads.h"
#include "mountd/base/result.h"

namespace mountd::nomad {

// One stream of a driver's values to Nomad. Deletes itself at its end.
template <typename Value, typename Message>
class StreamCall final : public grpc::ServerWriteReactor<Message> {
 public:
  struct Plan {
    std::function<Result<std::unique_ptr<driver::Stream<Value>>>()> open;
    std::function<void(const Value&, Message*)> fill;
    // Not null: the stream stays open whatever happens, because Nomad opens it
    // again at once and for ever. Writes the error, and tries again after the
    // pause. `fill_error` may do nothing; false: no message.
    std::function<bool(const Error&, Message*)> fill_error{};
    std::chrono::milliseconds pause{0};
  };

  StreamCall(CallThreads& threads, Plan plan) : plan_(std::move(plan)) {
    if (!threads.Run([this] { Run(); })) {
      this->Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "no more threads"});
    }
  }
  StreamCall(const StreamCall&) = delete;
  StreamCall& operator=(const StreamCall&) = delete;

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    write_ = ok ? Write::kDone : Write::kFailed;
    changed_.notify_all();
  }
  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (stream_ != nullptr) {
      stream_->Cancel();
    }
    changed_.notify_all();
  }
  void OnDone() override { delete this; }

 private:
  enum class Write { kNone, kUnderWay, kDone, kFailed };

  void Run() {
    grpc::Status status = Pass();
    while (plan_.fill_error != nullptr && Pause()) {
      status = Pass();
    }
    // OnDone may delete this object by now.
    this->Finish(status);
  }

  // Passes the values of one stream on.
  grpc::Status Pass() {
    auto opened = plan_.open();
    if (!opened) {
      return Failed(opened.error());
    }
    const std::unique_ptr<driver::Stream<Value>> stream = *std::move(opened);
    if (!Begin(stream.get())) {
      return grpc::Status::CANCELLED;
    }
    grpc::Status status = PassOn(*stream);
    Begin(nullptr);
    return status;
  }
  grpc::Status PassOn(driver::Stream<Value>& stream) {
    for (;;) {
      const Result<std::optional<Value>> value = stream.Next();
      if (!value) {
        return Failed(value.error());
      }
      if (!*value) {
        return grpc::Status::OK;
      }
      Message message;
      plan_.fill(**value, &message);
      if (!Send(message)) {
        return grpc::Status::CANCELLED;
      }
    }
  }
  grpc::Status Failed(const Error& error) {
    Message message;
    if (plan_.fill_error != nullptr && plan_.fill_error(error, &message)) {
      Send(message);
    }
    return StatusOf(error);
  }

  // False after the call's end.
  bool Begin(driver::Stream<Value>* stream) {
    const std::lock_guard lock(mutex_);
    stream_ = stream;
    return !cancelled_;
  }
  bool Send(const Message& message) {
    std::unique_lock lock(mutex_);
    if (cancelled_) {
      return false;
    }
    write_ = Write::kUnderWay;
    lock.unlock();  // gRPC may answer within the call
    this->StartWrite(&message);
    lock.lock();
    changed_.wait(lock, [this] { return write_ != Write::kUnderWay; });
    return write_ == Write::kDone;
  }
  // False after the call's end.
  bool Pause() {
    std::unique_lock lock(mutex_);
    return !changed_.wait_for(lock, plan_.pause, [this] { return cancelled_; });
  }

  const Plan plan_;
  std::mutex mutex_;
  std::condition_variable changed_;
  driver::Stream<Value>* stream_ = nullptr;
  Write write_ = Write::kNone;
  bool cancelled_ = false;
};

}  // namespace mountd::nomad
