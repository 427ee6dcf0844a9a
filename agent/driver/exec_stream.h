// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/driver/stream.h"
#include "agent/driver/task_status.h"
#include "mountd/base/result.h"

// Streaming exec, an optional interface of a driver in two forms. A driver
// implements the form that suits it.
namespace mountd::driver {

struct TerminalSize {
  bool operator==(const TerminalSize&) const = default;

  std::uint16_t rows = 0;
  std::uint16_t columns = 0;
};

// ---- High level -------------------------------------------------------------

// One command in a running task. The caller owns the fds and keeps them open
// until the call returns. With `terminal`, all output goes to `stdout_fd`.
struct ExecOptions {
  std::vector<std::string> command;
  bool terminal = false;
  int stdin_fd = -1;   // -1: the command reads the end of the input at once
  int stdout_fd = -1;  // -1: the output is dropped; it may be non-blocking
  int stderr_fd = -1;
  // The sizes of the caller's terminal, one after the other; the last one wins.
  // Null: the size never changes.
  Stream<TerminalSize>* sizes = nullptr;
  // An fd that poll(2) finds readable or hung up once the caller has gone, such
  // as the caller's pidfd. The command then ends, and the call is Aborted. -1:
  // the caller outlives the call.
  int caller_fd = -1;
};

class StreamingExec {
 public:
  StreamingExec() = default;
  StreamingExec(const StreamingExec&) = delete;
  StreamingExec& operator=(const StreamingExec&) = delete;
  virtual ~StreamingExec() = default;

  // Blocks until the command has ended and its output is written. Does not wait
  // for processes that the command leaves behind. NotFound without such a task;
  // FailedPrecondition if the task has ended. An error of the caller's file,
  // such as a full disk, ends the command, and is the error of the call.
  virtual Result<ExitResult> ExecTaskStreaming(const std::string& task_id,
                                               const ExecOptions& options) = 0;
};

// ---- Raw --------------------------------------------------------------------

// A piece of one of the three streams. `close` says that nothing follows.
struct ExecData {
  bool operator==(const ExecData&) const = default;

  std::string data{};
  bool close = false;
};

// A message from the caller. A message without any member is a heartbeat.
struct ExecRequest {
  bool operator==(const ExecRequest&) const = default;

  std::optional<TerminalSize> terminal_size{};
  std::optional<ExecData> stdin_data{};

  bool IsHeartbeat() const;
};

// A message to the caller. A message without any member is a heartbeat.
struct ExecResponse {
  bool operator==(const ExecResponse&) const = default;

  std::optional<ExecData> stdout_data{};
  std::optional<ExecData> stderr_data{};
  std::optional<ExitResult> result{};  // the last message

  bool IsHeartbeat() const;
};

// The driver's end of a stream of messages. One thread sends and one thread
// receives. Any thread calls Cancel.
class RawExecStream {
 public:
  RawExecStream() = default;
  RawExecStream(const RawExecStream&) = delete;
  RawExecStream& operator=(const RawExecStream&) = delete;
  virtual ~RawExecStream() = default;

  // Sends one message. The caller may use `response` again after the return.
  virtual Result<void> Send(const ExecResponse& response) = 0;
  // Waits for one message. nullopt: the peer sends nothing more. Answers an
  // error if the stream broke.
  virtual Result<std::optional<ExecRequest>> Receive() = 0;
  // Makes a waiting Receive, and every later one, return. Idempotent. A driver
  // calls it at the end of the command, because callers need not end their
  // messages.
  virtual void Cancel() = 0;
  // Returns the fd of ExecOptions::caller_fd. A driver that waits for the
  // command does not receive, so it polls this fd to learn that the caller has
  // gone. -1: only Receive says that the caller has gone.
  virtual int caller_fd() const { return -1; }
};

// Returns Aborted, the error of a call whose caller has gone during the call.
Error CallerGone(const std::string& task_id);

class RawStreamingExec {
 public:
  RawStreamingExec() = default;
  RawStreamingExec(const RawStreamingExec&) = delete;
  RawStreamingExec& operator=(const RawStreamingExec&) = delete;
  virtual ~RawStreamingExec() = default;

  // Blocks until the command has ended. Sends the exit result last, and then
  // returns. Does not wait for the end of the caller's messages, because
  // callers need not end theirs. The end of the caller's messages is the end of
  // the command's input. A broken stream means that the caller has gone, so it
  // ends the command. Errors as of ExecTaskStreaming.
  virtual Result<void> ExecTaskStreamingRaw(
      const std::string& task_id, const std::vector<std::string>& command,
      bool terminal, RawExecStream& stream) = 0;
};

}  // namespace mountd::driver
