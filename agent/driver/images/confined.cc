// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/confined.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include "agent/driver/images/confined_child.h"
#include "mountd/base/pipe.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {
namespace {

using Clock = Supervision::Clock;

constexpr std::size_t kMaxLastText = 2048;
constexpr auto kFirstLook = std::chrono::milliseconds(100);
constexpr auto kShortestPause = std::chrono::milliseconds(100);
constexpr int kPauseFactor = 9;
constexpr int kReadsPerTurn = 64;

// Makes a pipe whose ends are 3 or higher, even in a process that has closed
// its standard files. Reads do not block.
Result<Pipe> MakeHighPipe() {
  MOUNTD_ASSIGN(Pipe pipe, MakePipe(""));
  pipe.read.reset(::fcntl(pipe.read.get(), F_DUPFD_CLOEXEC, 3));
  pipe.write.reset(::fcntl(pipe.write.get(), F_DUPFD_CLOEXEC, 3));
  if (!pipe.read.valid() || !pipe.write.valid() ||
      ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK) != 0) {
    return ErrnoError(errno, "fcntl", "");
  }
  return pipe;
}

// Owns a child process. Kills and reaps it in the destructor.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      static_cast<void>(Reap());
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  Result<UniqueFd> Pidfd() const {
    UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    return fd.valid() ? Result<UniqueFd>(std::move(fd))
                      : ErrnoError(errno, "pidfd_open", "");
  }

  // Waits for the end. Returns the exit status, or -signal.
  Result<int> Reap() {
    const pid_t pid = std::exchange(pid_, -1);
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0) {
      if (errno != EINTR) {
        return ForkError(errno, "waitpid", "");
      }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

// Both ends of the pipes between the program and this process.
struct Files {
  Pipe out;
  Pipe error;
  Pipe report;
  UniqueFd null;
};

Result<Files> MakeFiles() {
  Files files;
  MOUNTD_ASSIGN(files.out, MakeHighPipe());
  MOUNTD_ASSIGN(files.error, MakeHighPipe());
  MOUNTD_ASSIGN(files.report, MakeHighPipe());
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  files.null.reset(::fcntl(null.get(), F_DUPFD_CLOEXEC, 3));
  if (!files.null.valid()) {
    return ErrnoError(errno, "open", "/dev/null");
  }
  return files;
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Forks with all signals blocked, so that no handler of this process runs in
// the child. Returns the pid, or -errno.
pid_t ForkChild(const ChildPlan& plan) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  const int err = errno;
  if (pid == 0) {
    BecomeConfined(plan);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return pid < 0 ? -err : pid;
}

Result<pid_t> StartChild(const Confinement& confinement,
                         const std::vector<std::string>& command,
                         const Files& files) {
  std::vector<std::string> words = command;
  const std::string home =
      confinement.writable.empty() ? "/" : confinement.writable;
  std::vector<std::string> variables{
      "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "HOME=" + home,
      "TMPDIR=" + home, "XDG_RUNTIME_DIR=" + home};
  const std::vector<char*> argv = Pointers(words);
  const std::vector<char*> environment = Pointers(variables);
  ChildPlan plan;
  plan.user_namespace = confinement.user_namespace;
  plan.writable =
      confinement.writable.empty() ? nullptr : confinement.writable.c_str();
  plan.inherited = confinement.inherited;
  plan.max_file_bytes = confinement.max_file_bytes;
  plan.argv = argv.data();
  plan.environment = environment.data();
  plan.null_fd = files.null.get();
  plan.out_fd = files.out.write.get();
  plan.error_fd = files.error.write.get();
  plan.report_fd = files.report.write.get();
  plan.parent = ::getpid();
  const pid_t pid = ForkChild(plan);
  if (pid < 0) {
    return ForkError(-pid, "fork", command.front());
  }
  return pid;
}

// Waits until the child has executed the program. Returns the error of the step
// that failed.
Result<void> AwaitStart(const UniqueFd& report, const std::string& program) {
  pollfd ready{report.get(), POLLIN, 0};
  while (::poll(&ready, 1, -1) < 0 && errno == EINTR) {
  }
  ConfinedReport failed;
  if (::read(report.get(), &failed, sizeof(failed)) !=
      static_cast<ssize_t>(sizeof(failed))) {
    return Ok();
  }
  const std::string step = ChildStepName(failed.step);
  if (step == "execve" && failed.err == ENOENT) {
    return ErrnoError(failed.err, step, program,
                      "install the Debian package of this program");
  }
  return ErrnoError(failed.err, step, program, "in the task's user namespace");
}

// Supervises one program until its end.
class Watcher {
 public:
  Watcher(const Supervision& supervision, std::string program, Files& files)
      : supervision_(supervision),
        program_(std::move(program)),
        files_(files) {}

  Result<ProgramEnd> Watch(Child& child) {
    MOUNTD_ASSIGN(const UniqueFd pidfd, child.Pidfd());
    next_look_ = Clock::now() + kFirstLook;
    for (;;) {
      std::array<pollfd, 3> ready{pollfd{pidfd.get(), POLLIN, 0},
                                  pollfd{files_.out.read.get(), POLLIN, 0},
                                  pollfd{files_.error.read.get(), POLLIN, 0}};
      if (::poll(ready.data(), ready.size(), PauseMs()) < 0 && errno != EINTR) {
        return ErrnoError(errno, "poll", program_);
      }
      const bool ended = ready[0].revents != 0;
      Drain(files_.out.read, true);
      Drain(files_.error.read, false);
      if (ended || end_.stopped) {
        return Finish(child);
      }
      MOUNTD_TRY(Look());
    }
  }

 private:
  int PauseMs() const {
    const auto until = supervision_.look
                           ? std::min(supervision_.deadline, next_look_)
                           : supervision_.deadline;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - Clock::now());
    return static_cast<int>(
        std::clamp<std::int64_t>(left.count() + 1, 0, std::int64_t{60000}));
  }

  // Reads the bytes that are in the pipe. Closes `fd` at the end of the stream
  // or after an error; poll(2) then ignores this pipe, because its fd is -1.
  void Drain(UniqueFd& fd, bool is_output) {
    std::array<char, 65536> buffer{};
    // The number of reads is bounded, because a program that writes for ever
    // must not keep Watch from calling Look. A full pipe takes fewer reads.
    for (int turn = 0; turn < kReadsPerTurn && fd.valid() && !end_.stopped;
         ++turn) {
      const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got < 0 && errno == EAGAIN) {
        return;
      }
      if (got <= 0) {
        fd.reset();
        return;
      }
      Take({buffer.data(), static_cast<std::size_t>(got)}, is_output);
    }
  }

  void Take(std::string_view bytes, bool is_output) {
    if (is_output && supervision_.output) {
      end_.stopped = !supervision_.output(bytes);
      return;
    }
    end_.text += bytes;
    if (end_.text.size() > kMaxLastText) {
      end_.text.erase(0, end_.text.size() - kMaxLastText);
    }
  }

  Result<void> Look() {
    if (Clock::now() >= supervision_.deadline) {
      return MakeError(Code::kDeadlineExceeded, "run", program_,
                       "did not end in time; give it more time, or a smaller "
                       "image");
    }
    if (supervision_.look && Clock::now() >= next_look_) {
      const auto before = Clock::now();
      MOUNTD_TRY(supervision_.look());
      const auto now = Clock::now();
      next_look_ = now + std::max<Clock::duration>(
                             kShortestPause, kPauseFactor * (now - before));
    }
    return Ok();
  }

  Result<ProgramEnd> Finish(Child& child) {
    if (end_.stopped) {
      return end_;
    }
    MOUNTD_ASSIGN(end_.status, child.Reap());
    return end_;
  }

  const Supervision& supervision_;
  const std::string program_;
  Files& files_;
  Clock::time_point next_look_;
  ProgramEnd end_;
};

}  // namespace

Result<ProgramEnd> RunConfined(const Confinement& confinement,
                               const std::vector<std::string>& command,
                               const Supervision& supervision) {
  MOUNTD_ASSIGN(Files files, MakeFiles());
  MOUNTD_ASSIGN(const pid_t pid, StartChild(confinement, command, files));
  Child child(pid);
  // Closes this process's writing ends, so that each pipe ends when the child
  // ends.
  files.out.write.reset();
  files.error.write.reset();
  files.report.write.reset();
  MOUNTD_TRY(AwaitStart(files.report.read, command.front()));
  return Watcher(supervision, command.front(), files).Watch(child);
}

}  // namespace mountd::driver
