// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <grpcpp/grpcpp.h>
#include <nomad_drivers.pb.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "agent/driver/exec_stream.h"
#include "agent/driver/task_driver.h"
#include "agent/nomad/plugin/call_threads.h"
#include "mountd/base/unique_fd.h"

namespace mountd::nomad {

// One command in a running task, with its streams. Deletes itself at its end.
// The end of the command ends the call, because Nomad's client never ends its
// messages.
class ExecCall final
    : public grpc::ServerBidiReactor<
          hashicorp::nomad::plugins::drivers::proto::ExecTaskStreamingRequest,
          hashicorp::nomad::plugins::drivers::proto::ExecTaskStreamingResponse>,
      public driver::RawExecStream {
 public:
  using GetDriver = std::function<Result<driver::TaskDriver*>()>;

  ExecCall(CallThreads& threads, GetDriver get_driver);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { delete this; }

  Result<void> Send(const driver::ExecResponse& response) override;
  Result<std::optional<driver::ExecRequest>> Receive() override;
  void Cancel() override;
  int caller_fd() const override { return caller_gone_.get(); }

 private:
  enum class State { kNone, kUnderWay, kDone, kFailed };

  void Run();
  grpc::Status Exec();
  // False: no message comes any more.
  bool Read();

  const GetDriver get_driver_;
  const UniqueFd caller_gone_;  // an eventfd
  hashicorp::nomad::plugins::drivers::proto::ExecTaskStreamingRequest request_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  State read_ = State::kNone;
  State write_ = State::kNone;
  bool cancelled_ = false;
  bool ended_ = false;  // the command has ended
};

}  // namespace mountd::nomad
