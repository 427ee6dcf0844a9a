// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/raw_over_exec.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>

#include "agent/driver/joining_threads.h"
#include "agent/driver/last_size.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {
namespace {

constexpr std::size_t kMessageBytes = std::size_t{32} << 10U;

// The command's streams. The driver's ends of the output are non-blocking, so
// that a driver can poll(2) for a slow caller and for the caller's end at once.
struct Ends {
  Result<void> Open();

  UniqueFd stdin_read, stdin_write;
  UniqueFd stdout_read, stdout_write;
  UniqueFd stderr_read, stderr_write;
  UniqueFd caller_gone;   // an eventfd
  UniqueFd command_done;  // an eventfd
};

Result<void> OpenPipe(UniqueFd& read, UniqueFd& write) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return ErrnoError(errno, "exec", "pipe2");
  }
  read.reset(ends[0]);
  write.reset(ends[1]);
  if (::fcntl(write.get(), F_SETFL, O_NONBLOCK) != 0) {
    return ErrnoError(errno, "exec", "fcntl");
  }
  return Ok();
}

Result<void> Ends::Open() {
  MOUNTD_TRY(OpenPipe(stdin_read, stdin_write));
  MOUNTD_TRY(OpenPipe(stdout_read, stdout_write));
  MOUNTD_TRY(OpenPipe(stderr_read, stderr_write));
  for (UniqueFd* event : {&caller_gone, &command_done}) {
    event->reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event->valid()) {
      return ErrnoError(errno, "exec", "eventfd");
    }
  }
  return Ok();
}

// Receives the caller's messages until the caller ends the messages or goes
// away, or until the command ends.
class Receiver {
 public:
  Receiver(RawExecStream& stream, Ends& ends, LastSize& sizes)
      : stream_(stream), ends_(ends), sizes_(sizes) {}

  void Run(const std::string& task_id) {
    failure_ = Receive();
    ends_.stdin_write.reset();
    if (failure_ && Wait(-1) == Event::kCallerGone) {
      failure_ = CallerGone(task_id);
    }
    if (!failure_) {
      ::eventfd_write(ends_.caller_gone.get(), 1);
    }
  }

  // Returns the stream's error. The caller has joined the thread before.
  const Result<void>& failure() const { return failure_; }

 private:
  enum class Event { kRoom, kDone, kCallerGone };

  Result<void> Receive() {
    for (;;) {
      MOUNTD_ASSIGN(const std::optional<ExecRequest> request,
                    stream_.Receive());
      if (!request) {
        return Ok();
      }
      if (request->terminal_size) {
        sizes_.Put(*request->terminal_size);
      }
      if (request->stdin_data && !Feed(*request->stdin_data)) {
        return Ok();
      }
    }
  }

  // Writes to the command's stdin. False: the command has ended, or its caller
  // has gone.
  bool Feed(const ExecData& input) {
    std::string_view left = input.data;
    // Drops bytes that follow the end of the input, because nobody reads these.
    while (!left.empty() && ends_.stdin_write.valid()) {
      const ssize_t put =
          ::write(ends_.stdin_write.get(), left.data(), left.size());
      if (put >= 0) {
        left.remove_prefix(static_cast<std::size_t>(put));
      } else if (errno == EAGAIN) {
        if (Wait(ends_.stdin_write.get()) != Event::kRoom) {
          return false;
        }
      } else if (errno != EINTR) {
        ends_.stdin_write.reset();
      }
    }
    if (input.close) {
      ends_.stdin_write.reset();
    }
    return true;
  }

  // Waits until `input` has room, the command ends or the caller goes away.
  // With -1 as `input`, waits for the end of the command or of the caller
  // alone.
  Event Wait(int input) const {
    std::array<pollfd, 3> waiting = {{{ends_.command_done.get(), POLLIN, 0},
                                      {stream_.caller_fd(), POLLIN, 0},
                                      {input, POLLOUT, 0}}};
    while (::poll(waiting.data(), waiting.size(), -1) < 0) {
      if (errno != EINTR) {
        return Event::kCallerGone;
      }
    }
    if (waiting[0].revents != 0) {
      return Event::kDone;
    }
    return waiting[1].revents != 0 ? Event::kCallerGone : Event::kRoom;
  }

  RawExecStream& stream_;
  Ends& ends_;
  LastSize& sizes_;
  Result<void> failure_;
};

// Sends the output until both of its streams have ended. An error of the stream
// means that the caller has gone, so nobody reads the output.
class Sender {
 public:
  Sender(RawExecStream& stream, Ends& ends) : stream_(stream), ends_(ends) {}

  void Run() {
    failure_ = SendAll();
    if (!failure_) {
      ::eventfd_write(ends_.caller_gone.get(), 1);
    }
  }

  const Result<void>& failure() const { return failure_; }

 private:
  Result<void> SendAll() {
    while (ends_.stdout_read.valid() || ends_.stderr_read.valid()) {
      std::array<pollfd, 2> waiting = {{{ends_.stdout_read.get(), POLLIN, 0},
                                        {ends_.stderr_read.get(), POLLIN, 0}}};
      if (::poll(waiting.data(), waiting.size(), -1) < 0) {
        if (errno != EINTR) {
          return ErrnoError(errno, "exec", "poll");
        }
        continue;
      }
      if (waiting[0].revents != 0) {
        MOUNTD_TRY(SendPiece(ends_.stdout_read, &ExecResponse::stdout_data));
      }
      if (waiting[1].revents != 0) {
        MOUNTD_TRY(SendPiece(ends_.stderr_read, &ExecResponse::stderr_data));
      }
    }
    return Ok();
  }

  Result<void> SendPiece(UniqueFd& from,
                         std::optional<ExecData> ExecResponse::*member) {
    ExecResponse response;
    ExecData& data = (response.*member).emplace();
    data.data.resize(kMessageBytes);
    const ssize_t got = ::read(from.get(), data.data.data(), data.data.size());
    if (got < 0 && errno == EINTR) {
      return Ok();
    }
    data.data.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    if (got <= 0) {
      data.close = true;
      from.reset();
    }
    return stream_.Send(response);
  }

  RawExecStream& stream_;
  Ends& ends_;
  Result<void> failure_;
};

}  // namespace

Result<void> RawOverExec(StreamingExec& driver, const std::string& task_id,
                         const std::vector<std::string>& command, bool terminal,
                         RawExecStream& stream) {
  Ends ends;
  MOUNTD_TRY(ends.Open());
  LastSize sizes;
  Receiver receiver(stream, ends, sizes);
  Sender sender(stream, ends);
  JoiningThreads threads([&] {
    ends.stdout_write.reset();
    ends.stderr_write.reset();
    ::eventfd_write(ends.command_done.get(), 1);
    stream.Cancel();
  });
  MOUNTD_TRY(threads.Start(task_id, [&] { receiver.Run(task_id); }));
  MOUNTD_TRY(threads.Start(task_id, [&] { sender.Run(); }));
  ExecOptions options;
  options.command = command;
  options.terminal = terminal;
  options.stdin_fd = ends.stdin_read.get();
  options.stdout_fd = ends.stdout_write.get();
  options.stderr_fd = ends.stderr_write.get();
  options.sizes = &sizes;
  options.caller_fd = ends.caller_gone.get();
  const Result<ExitResult> result = driver.ExecTaskStreaming(task_id, options);
  threads.Join();
  MOUNTD_TRY(sender.failure());
  if (!result) {
    const bool is_broken =
        result.error().code == Code::kAborted && !receiver.failure();
    return is_broken ? receiver.failure().error() : result.error();
  }
  ExecResponse last;
  last.result = *result;
  return stream.Send(last);
}

}  // namespace mountd::driver
