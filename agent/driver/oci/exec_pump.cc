// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/exec_pump.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <utility>

#include "agent/driver/exec_stream.h"
#include "agent/driver/oci/sight.h"

namespace mountd::driver {
namespace {

constexpr std::size_t kPart = 65536;
// A pty gives its last output a moment after its writer has ended. The pump
// waits no longer, because a process that the command left behind may keep the
// pty open.
constexpr int kLastOutputMs = 50;

// Blocks SIGPIPE, so that a write to a process that has closed its input fails
// with EPIPE and does not kill the caller.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec now = {0, 0};
    while (!was_pending_ && ::sigtimedwait(&pipe_, nullptr, &now) == SIGPIPE) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

int LeftMs(const std::optional<std::chrono::steady_clock::time_point>& end) {
  if (!end) {
    return -1;
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      *end - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
}

Error LateError(const std::string& task_id) {
  return MakeError(Code::kDeadlineExceeded, "exec", task_id,
                   "the command did not end in time, and was killed");
}

Error NotBegunError(const std::string& task_id) {
  return MakeError(Code::kDeadlineExceeded, "exec", task_id,
                   "the runtime did not start the command in time");
}

Error ShutdownError(const std::string& task_id) {
  return MakeError(Code::kAborted, "exec", task_id,
                   "the driver is shutting down; the command was killed");
}

}  // namespace

Result<ExitResult> ExecPump::Run(shim::ShimConnection& shim) {
  const WithoutSigpipe guard;
  for (;;) {
    const bool has_begun = !start_deadline;
    const int to_process = has_terminal ? output.get() : input.get();
    std::array<pollfd, 7> waiting = {{
        {shim.fd(), POLLIN, 0},
        {shutdown, POLLIN, 0},
        {output.get(), POLLIN, 0},
        // Skips stderr until the process has begun, because a runtime that
        // fails writes the reason to stderr, and the shim reports this reason.
        {has_begun ? error.get() : -1, POLLIN, 0},
        {waiting_.empty() && has_begun ? stdin_fd : -1, POLLIN, 0},
        {waiting_.empty() ? -1 : to_process, POLLOUT, 0},
        {caller, POLLIN, 0},
    }};
    const int ready = ::poll(waiting.data(), waiting.size(), LeftMs(End()));
    if (ready < 0 && errno != EINTR) {
      return ErrnoError(errno, "poll", task_id);
    }
    // Checks the time even if a stream is ready, because a command that writes
    // without a pause keeps poll(2) from reaching its timeout.
    if (ready == 0 || LeftMs(End()) == 0) {
      return TooLate();
    }
    if (ready < 0) {
      continue;
    }
    if (waiting[1].revents != 0) {
      return ShutdownError(task_id);
    }
    if (waiting[6].revents != 0) {
      return CallerGone(task_id);
    }
    if (waiting[2].revents != 0) {
      MoveOutput(output, take_output);
      // Other fds keep the terminal open, so closing `output` does not end the
      // process. The end of the connection to the shim ends it.
      if (has_terminal && !taken_) {
        return taken_.error();
      }
    }
    if (waiting[3].revents != 0) {
      MoveOutput(error, take_error);
    }
    if (waiting[4].revents != 0 || waiting[5].revents != 0) {
      MoveInput();
    }
    if (waiting[0].revents != 0) {
      MOUNTD_ASSIGN(const std::optional<ExitResult> ended, Hear(shim));
      if (ended) {
        return *ended;
      }
    }
  }
}

std::optional<std::chrono::steady_clock::time_point> ExecPump::End() const {
  return deadline && start_deadline ? std::min(deadline, start_deadline)
                                    : (deadline ? deadline : start_deadline);
}

Error ExecPump::TooLate() const {
  const bool is_over =
      deadline && *deadline <= std::chrono::steady_clock::now();
  return is_over ? LateError(task_id) : NotBegunError(task_id);
}

Result<std::optional<ExitResult>> ExecPump::Hear(shim::ShimConnection& shim) {
  MOUNTD_ASSIGN(const shim::Answer told,
                shim.Next(std::chrono::milliseconds(0)));
  if (told.message.kind() == shim::Kind::kExecStarted) {
    start_deadline.reset();
    return std::optional<ExitResult>();
  }
  Drain();
  if (!taken_) {
    return taken_.error();
  }
  return std::optional<ExitResult>(ResultOf(told.message));
}

Result<void> ExecPump::WriteTo(int fd, std::string_view bytes) const {
  while (fd >= 0 && !bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(put));
      continue;
    }
    if (errno == EINTR) {
      continue;
    }
    if (errno != EAGAIN) {
      return ErrnoError(errno, "write", "output of exec in " + task_id);
    }
    std::array<pollfd, 3> waiting = {
        {{fd, POLLOUT, 0}, {shutdown, POLLIN, 0}, {caller, POLLIN, 0}}};
    const int ready = ::poll(waiting.data(), waiting.size(), LeftMs(deadline));
    if (ready == 0) {
      return LateError(task_id);
    }
    if (ready > 0 && waiting[1].revents != 0) {
      return ShutdownError(task_id);
    }
    if (ready > 0 && waiting[2].revents != 0) {
      return CallerGone(task_id);
    }
  }
  return Ok();
}

void ExecPump::MoveInput() {
  if (waiting_.empty()) {
    std::array<char, kPart> part{};
    const ssize_t got = ::read(stdin_fd, part.data(), part.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
      return;
    }
    if (got <= 0) {
      stdin_fd = -1;
      input.reset();
      return;
    }
    waiting_.assign(part.data(), static_cast<std::size_t>(got));
  }
  const int to_process = has_terminal ? output.get() : input.get();
  const ssize_t put = ::write(to_process, waiting_.data(), waiting_.size());
  if (put >= 0) {
    waiting_.erase(0, static_cast<std::size_t>(put));
  } else if (errno != EINTR && errno != EAGAIN) {
    // The process has closed its input.
    waiting_.clear();
    stdin_fd = -1;
    input.reset();
  }
}

bool ExecPump::MoveOutput(UniqueFd& from, const OutputTaker& taker) {
  std::array<char, kPart> part{};
  const ssize_t got = ::read(from.get(), part.data(), part.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
    return errno == EINTR;
  }
  // EIO is the end of a terminal.
  if (got <= 0) {
    from.reset();
    return false;
  }
  Result<void> taken = taker({part.data(), static_cast<std::size_t>(got)});
  if (taken) {
    return true;
  }
  from.reset();
  if (taken_) {
    taken_ = std::move(taken);
  }
  return false;
}

void ExecPump::Drain() {
  // The number of reads is bounded, because a process that the command has left
  // behind may write for ever. A pipe of an ordinary user has at most 1 MiB
  // (pipe(7)).
  constexpr std::size_t kMostReads = (std::size_t{1} << 20U) / kPart + 16;
  for (std::size_t i = 0;
       i < kMostReads && error.valid() && MoveOutput(error, take_error); ++i) {
  }
  pollfd more = {output.get(), POLLIN, 0};
  for (std::size_t i = 0;
       i < kMostReads && output.valid() &&
       (!has_terminal || ::poll(&more, 1, kLastOutputMs) > 0) &&
       MoveOutput(output, take_output);
       ++i) {
  }
}

}  // namespace mountd::driver
