// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/exec_over_raw.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "agent/driver/joining_threads.h"
#include "mountd/base/unique_fd.h"
#include "mountd/base/write_all.h"

namespace mountd::driver {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{32} << 10U;
// At most this many messages wait for the driver. So ExecOverRaw stops reading
// stdin while the driver does not read.
constexpr std::size_t kMostWaiting = 16;

// The driver's end of the stream. Receive returns requests that two threads
// make from the caller's fds, and Send writes responses to the caller's fds.
class FdStream : public RawExecStream {
 public:
  explicit FdStream(const ExecOptions& options) : options_(options) {}

  Result<void> Send(const ExecResponse& response) override {
    MOUNTD_TRY(Broken());
    if (response.stdout_data) {
      MOUNTD_TRY(Write(options_.stdout_fd, *response.stdout_data, "stdout"));
    }
    if (response.stderr_data) {
      MOUNTD_TRY(Write(options_.stderr_fd, *response.stderr_data, "stderr"));
    }
    if (response.result) {
      const std::lock_guard lock(mutex_);
      result_ = response.result;
    }
    return Ok();
  }

  Result<std::optional<ExecRequest>> Receive() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !waiting_.empty() || ended_; });
    if (!broken_) {
      return broken_.error();
    }
    if (waiting_.empty()) {
      return std::optional<ExecRequest>();
    }
    std::optional<ExecRequest> request = std::move(waiting_.front());
    waiting_.pop_front();
    changed_.notify_all();
    return request;
  }

  // Adds a request once the queue has room. False: the command has ended.
  bool Add(ExecRequest request) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock,
                  [this] { return waiting_.size() < kMostWaiting || ended_; });
    if (ended_) {
      return false;
    }
    waiting_.push_back(std::move(request));
    changed_.notify_all();
    return true;
  }

  void Cancel() override {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  // Makes every later Send and Receive answer `error`.
  void Break(Error error) {
    const std::lock_guard lock(mutex_);
    broken_ = std::move(error);
    ended_ = true;
    changed_.notify_all();
  }

  int caller_fd() const override { return options_.caller_fd; }

  Result<void> Broken() {
    const std::lock_guard lock(mutex_);
    return broken_;
  }

  std::optional<ExitResult> result() {
    const std::lock_guard lock(mutex_);
    return result_;
  }

 private:
  // Drops the data if the caller has not given this stream an fd.
  static Result<void> Write(int fd, const ExecData& data,
                            const std::string& name) {
    return fd < 0 ? Ok() : WriteAll(fd, data.data, name);
  }

  const ExecOptions& options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ExecRequest> waiting_;
  bool ended_ = false;
  Result<void> broken_;
  std::optional<ExitResult> result_;
};

ExecRequest StdinRequest(std::string data, bool close) {
  ExecRequest request;
  request.stdin_data = ExecData{std::move(data), close};
  return request;
}

// Waits for input. False if `end` can be read first. A hung-up `fd` counts as
// readable.
bool WaitForInput(int fd, int end) {
  std::array<pollfd, 2> entries = {pollfd{fd, POLLIN, 0},
                                   pollfd{end, POLLIN, 0}};
  while (::poll(entries.data(), entries.size(), -1) < 0) {
    if (errno != EINTR) {
      return false;
    }
  }
  return entries[1].revents == 0;
}

// Sends the input until the input ends or `end` can be read. A failing read
// ends the input, because no message can tell the command of the error.
void FeedInput(int fd, int end, FdStream& stream) {
  std::string piece(kPieceBytes, '\0');
  while (fd >= 0 && WaitForInput(fd, end)) {
    const ssize_t size = ::read(fd, piece.data(), piece.size());
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) {
      continue;
    }
    if (size <= 0) {
      break;
    }
    if (!stream.Add(StdinRequest(
            piece.substr(0, static_cast<std::size_t>(size)), false))) {
      return;
    }
  }
  stream.Add(StdinRequest("", true));
}

void WatchCaller(int caller, int end, const std::string& task_id,
                 FdStream& stream) {
  if (caller >= 0 && WaitForInput(caller, end)) {
    stream.Break(CallerGone(task_id));
  }
}

void FeedSizes(Stream<TerminalSize>& sizes, FdStream& stream) {
  for (;;) {
    const Result<std::optional<TerminalSize>> size = sizes.Next();
    ExecRequest request;
    if (!size || !*size) {
      return;
    }
    request.terminal_size = **size;
    if (!stream.Add(std::move(request))) {
      return;
    }
  }
}

}  // namespace

Result<ExitResult> ExecOverRaw(RawStreamingExec& driver,
                               const std::string& task_id,
                               const ExecOptions& options) {
  const UniqueFd end(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!end.valid()) {
    return ErrnoError(errno, "exec", task_id, "eventfd");
  }
  FdStream stream(options);
  JoiningThreads threads([&] {
    stream.Cancel();
    ::eventfd_write(end.get(), 1);
    if (options.sizes != nullptr) {
      options.sizes->Cancel();
    }
  });
  MOUNTD_TRY(threads.Start(
      task_id, [&] { FeedInput(options.stdin_fd, end.get(), stream); }));
  MOUNTD_TRY(threads.Start(task_id, [&] {
    if (options.sizes != nullptr) {
      FeedSizes(*options.sizes, stream);
    }
  }));
  MOUNTD_TRY(threads.Start(task_id, [&] {
    WatchCaller(options.caller_fd, end.get(), task_id, stream);
  }));
  const Result<void> outcome = driver.ExecTaskStreamingRaw(
      task_id, options.command, options.terminal, stream);
  threads.Join();
  MOUNTD_TRY(outcome);
  const std::optional<ExitResult> result = stream.result();
  return result ? Result<ExitResult>(*result)
                : Result<ExitResult>(
                      MakeError(Code::kInternal, "exec", task_id,
                                "the task driver sent no exit result"));
}

}  // namespace mountd::driver
