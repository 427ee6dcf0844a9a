// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Adds processes to running tasks.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <thread>
#include <utility>

#include "agent/driver/joining_threads.h"
#include "agent/driver/oci/driver.h"
#include "agent/driver/oci/exec_pump.h"
#include "mountd/base/memory_file.h"

namespace mountd::driver {
namespace {

using shim::Kind;
using shim::Message;
using shim::ShimConnection;
using shim::Tag;

constexpr std::chrono::minutes kExecPatience{1};
constexpr std::size_t kMostOutput = std::size_t{1} << 20U;
// The wait for the first size of the caller's terminal. A caller with a size
// sends it at once, so a short wait is enough.
constexpr std::chrono::milliseconds kFirstSize{50};

// Owns a thread that copies the sizes of the caller's terminal to the task's
// terminal.
class SizeFollower {
 public:
  explicit SizeFollower(Stream<TerminalSize>* sizes)
      : sizes_(sizes), threads_([this] { End(); }) {}

  // ResourceExhausted if the kernel has no room for the thread.
  Result<void> Start(const std::string& task_id) {
    return sizes_ == nullptr ? Ok()
                             : threads_.Start(task_id, [this] { Follow(); });
  }

  TerminalSize First() {
    std::unique_lock lock(mutex_);
    if (sizes_ != nullptr) {
      changed_.wait_for(lock, kFirstSize, [this] { return has_size_; });
    }
    return size_;
  }

  // Sets the size that is known, and each later one.
  void Set(int terminal) {
    const std::lock_guard lock(mutex_);
    terminal_.reset(::fcntl(terminal, F_DUPFD_CLOEXEC, 0));
    if (has_size_) {
      Apply();
    }
  }

 private:
  void End() {
    if (sizes_ != nullptr) {
      sizes_->Cancel();
    }
  }
  void Follow() {
    for (;;) {
      const auto size = sizes_->Next();
      if (!size || !*size) {
        return;
      }
      const std::lock_guard lock(mutex_);
      size_ = **size;
      has_size_ = true;
      changed_.notify_all();
      if (terminal_.valid()) {
        Apply();
      }
    }
  }
  void Apply() const {
    winsize size{};
    size.ws_row = size_.rows;
    size.ws_col = size_.columns;
    ::ioctl(terminal_.get(), TIOCSWINSZ, &size);
  }

  Stream<TerminalSize>* sizes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  TerminalSize size_;
  bool has_size_ = false;
  UniqueFd terminal_;
  JoiningThreads threads_;  // last, because the thread uses all of the above
};

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return ErrnoError(errno, "pipe2", "exec");
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Result<void> MakeNonBlocking(const UniqueFd& fd) {
  if (fd.valid() && ::fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0) {
    return ErrnoError(errno, "fcntl", "exec");
  }
  return Ok();
}

// The pump outlives the taker.
OutputTaker WriterTo(int fd, const ExecPump& pump) {
  return
      [fd, &pump](std::string_view bytes) { return pump.WriteTo(fd, bytes); };
}

// Drops bytes beyond the bound and keeps reading, so that the command does not
// block.
OutputTaker AppenderTo(std::string* text) {
  return [text](std::string_view bytes) -> Result<void> {
    text->append(bytes.substr(0, kMostOutput - text->size()));
    return Ok();
  };
}

Result<std::string> ProcessOf(const TaskRecord& record,
                              const std::vector<std::string>& command,
                              bool terminal, const TerminalSize& size) {
  ContainerProcess process = record.process;
  process.args = command;
  process.terminal = terminal;
  process.console_size = {size.rows, size.columns};
  if (terminal) {
    process.env.try_emplace("TERM", "xterm");
  }
  return ProcessFile(process);
}

// Returns how long to wait for the runtime: no longer than the caller waits for
// the command, because the runtime may hang.
std::chrono::milliseconds PatienceOf(const ExecPump& pump) {
  if (!pump.deadline) {
    return kExecPatience;
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      *pump.deadline - std::chrono::steady_clock::now());
  return std::clamp<std::chrono::milliseconds>(
      left, std::chrono::milliseconds(0), kExecPatience);
}

// Asks the shim for the process, and gives the driver's ends of the process's
// streams to the pump.
Result<void> StartExec(ShimConnection& shim, const std::string& process,
                       ExecPump* pump) {
  MOUNTD_ASSIGN(const UniqueFd memory, MemoryWith("process.json", process));
  Message request(Kind::kExec);
  if (pump->has_terminal) {
    request.Add(Tag::kConsole, std::uint64_t{1});
    const int fd = memory.get();
    MOUNTD_ASSIGN(shim::Answer started,
                  shim.Call(request, std::span(&fd, 1), PatienceOf(*pump)));
    if (started.fds.size() != 2) {
      return MakeError(Code::kInternal, "exec", pump->task_id,
                       "the shim has passed no terminal");
    }
    pump->output = std::move(started.fds[1]);
    return MakeNonBlocking(pump->output);
  }
  MOUNTD_ASSIGN(Pipe input, MakePipe());
  MOUNTD_ASSIGN(Pipe output, MakePipe());
  MOUNTD_ASSIGN(Pipe error, MakePipe());
  const std::array<int, 4> fds = {memory.get(), input.read.get(),
                                  output.write.get(), error.write.get()};
  // Run gets the answer, because the first output may come earlier.
  MOUNTD_TRY(shim.Post(request, fds));
  pump->start_deadline = std::chrono::steady_clock::now() + PatienceOf(*pump);
  if (pump->stdin_fd >= 0) {
    pump->input = std::move(input.write);
  }
  pump->output = std::move(output.read);
  pump->error = std::move(error.read);
  MOUNTD_TRY(MakeNonBlocking(pump->input));
  MOUNTD_TRY(MakeNonBlocking(pump->output));
  return MakeNonBlocking(pump->error);
}

Result<ShimConnection> ShimToExec(const TaskPlace& place) {
  MOUNTD_ASSIGN(Sight sight, LookAt(place));
  if (sight.phase == Phase::kLost) {
    return MakeError(Code::kFailedPrecondition, "exec", place.record.id,
                     "somebody has killed the task's shim, so no process can "
                     "be added");
  }
  if (sight.phase != Phase::kRunning) {
    return MakeError(Code::kFailedPrecondition, "exec", place.record.id,
                     "the task is not running");
  }
  return *std::move(sight.shim);
}

}  // namespace

Result<ExecOutput> OciDriver::ExecTask(const std::string& id,
                                       const std::vector<std::string>& command,
                                       std::chrono::milliseconds timeout) {
  MOUNTD_ASSIGN(const TaskPlace place, store_.Find(id));
  MOUNTD_ASSIGN(ShimConnection shim, ShimToExec(place));
  MOUNTD_ASSIGN(const std::string process,
                ProcessOf(place.record, command, false, {}));
  ExecOutput result;
  ExecPump pump;
  pump.shutdown = host_->shutdown();
  pump.task_id = id;
  pump.take_output = AppenderTo(&result.stdout_text);
  pump.take_error = AppenderTo(&result.stderr_text);
  pump.deadline = std::chrono::steady_clock::now() + timeout;
  MOUNTD_TRY(StartExec(shim, process, &pump));
  MOUNTD_ASSIGN(result.result, pump.Run(shim));
  return result;
}

Result<ExitResult> OciDriver::ExecTaskStreaming(const std::string& task_id,
                                                const ExecOptions& options) {
  MOUNTD_ASSIGN(const TaskPlace place, store_.Find(task_id));
  MOUNTD_ASSIGN(ShimConnection shim, ShimToExec(place));
  SizeFollower sizes(options.terminal ? options.sizes : nullptr);
  MOUNTD_TRY(sizes.Start(task_id));
  MOUNTD_ASSIGN(const std::string process,
                ProcessOf(place.record, options.command, options.terminal,
                          sizes.First()));
  ExecPump pump;
  pump.shutdown = host_->shutdown();
  pump.caller = options.caller_fd;
  pump.task_id = task_id;
  pump.stdin_fd = options.stdin_fd;
  pump.take_output = WriterTo(options.stdout_fd, pump);
  pump.take_error = WriterTo(options.stderr_fd, pump);
  pump.has_terminal = options.terminal;
  MOUNTD_TRY(StartExec(shim, process, &pump));
  if (options.terminal) {
    sizes.Set(pump.output.get());
  }
  return pump.Run(shim);
}

}  // namespace mountd::driver
