// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/protocol/launch.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "agent/driver/protocol/fork_into_cgroup.h"
#include "mountd/base/fd_limit.h"
#include "mountd/base/memory_file.h"

namespace mountd::shim {
namespace {

constexpr int kFirstFreeFd = kLastPassedFd + 1;
constexpr int kNoFd = -1;

// Number in the shim -> the caller's fd.
using PassedFds = std::array<int, kLastPassedFd + 1>;

// Moves the fds to their numbers in the shim, and closes all others. Each fd
// first gets a number above all of these, because a move must not overwrite an
// fd that waits for its own move. Async-signal-safe.
bool Arrange(PassedFds fds) {
  for (int& fd : fds) {
    if (fd != kNoFd) {
      fd = ::fcntl(fd, F_DUPFD, kFirstFreeFd);
      if (fd < 0) {
        return false;
      }
    }
  }
  for (int number = 0; number <= kLastPassedFd; ++number) {
    const int fd = fds.at(static_cast<std::size_t>(number));
    if (fd == kNoFd) {
      ::close(number);
    } else if (::dup2(fd, number) < 0) {
      return false;
    }
  }
  return ::syscall(SYS_close_range, static_cast<unsigned>(kFirstFreeFd), ~0U,
                   0U) == 0;
}

// Runs in the shim's process before execve(2), and executes the shim's program.
// Async-signal-safe.
void BecomeShim(const char* program, const PassedFds& fds) {
  // The shim needs no capability. With one of the ambient set it would keep
  // that capability longer than its driver, and a later driver without the
  // capability could not look at the shim (ptrace(2), PTRACE_MODE_READ).
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0UL, 0UL, 0UL);
  // The kernel compares the user's fds in flight with the sender's limit.
  RaiseFdLimit();
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (!Arrange(fds)) {
    ::_exit(126);
  }
  std::array<char*, 2> arguments = {const_cast<char*>(program), nullptr};
  ::execv(program, arguments.data());
  ::_exit(127);
}

// The first child's exit code is an errno of fork(2). With this bit, it is the
// errno of the shim's move into its cgroup.
constexpr int kCgroupBit = 128;

// Moves the shim into its cgroup, and writes the errno, or 0, for the first
// child. Async-signal-safe.
bool JoinAndTell(int cgroup, int report) {
  const bool joined = JoinCgroup(cgroup);
  const auto error = static_cast<unsigned char>(joined ? 0 : errno);
  return ::write(report, &error, 1) == 1 && joined;
}

// The first child: forks the shim, and returns its own exit code.
// Async-signal-safe.
int ForkSecond(const char* program, const PassedFds& fds, int cgroup) {
  std::array<int, 2> report{};
  if (::pipe2(report.data(), O_CLOEXEC) != 0) {
    return errno;
  }
  const ForkedInto shim = ForkIntoCgroup(cgroup);
  if (shim.pid == 0) {
    if (!shim.joined && !JoinAndTell(cgroup, report[1])) {
      ::_exit(126);
    }
    BecomeShim(program, fds);
  }
  if (shim.pid < 0) {
    return errno;
  }
  ::close(report[1]);
  unsigned char error = 0;
  if (shim.joined || ::read(report[0], &error, 1) != 1 || error == 0) {
    return 0;
  }
  return kCgroupBit | error;
}

Error CgroupError(int error, int cgroup) {
  std::error_code unknown;
  const std::string path = std::filesystem::read_symlink(
      "/proc/self/fd/" + std::to_string(cgroup), unknown);
  return ErrnoError(
      error, "join the cgroup", path,
      error == EAGAIN
          ? "pids.max of the cgroup, or of one above, is reached; end tasks, "
            "or raise it"
          : "the user must be able to write cgroup.procs there and in the "
            "nearest cgroup above both it and the driver's own; delegate that "
            "one (Delegate=yes of systemd), or give the driver another cgroup");
}

// Forks twice, so that the shim has no parent that has to wait for it.
Result<void> ForkShim(const char* program, const PassedFds& fds, int cgroup) {
  const pid_t child = ::fork();
  if (child < 0) {
    return ForkError(errno, "fork", "mountd-task-shim");
  }
  if (child == 0) {
    ::setsid();
    ::_exit(ForkSecond(program, fds, cgroup));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status)) {
    return ForkError(ECHILD, "fork", "mountd-task-shim");
  }
  const int code = WEXITSTATUS(status);
  if ((code & kCgroupBit) != 0) {
    return CgroupError(code & ~kCgroupBit, cgroup);
  }
  return code == 0 ? Ok()
                   : Result<void>(ForkError(code, "fork", "mountd-task-shim"));
}

Message WithPassedFds(Message create, const PassedFds& fds) {
  std::uint64_t bits = 0;
  for (std::size_t number = 0; number < fds.size(); ++number) {
    bits |= fds.at(number) == kNoFd ? 0 : std::uint64_t{1} << number;
  }
  create.Add(Tag::kPassedFds, bits);
  return create;
}

}  // namespace

Result<ShimConnection> LaunchShim(Launch launch) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) !=
      0) {
    return ErrnoError(errno, "socketpair", "mountd-task-shim");
  }
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  PassedFds fds = {null.get(),
                   null.get(),
                   null.get(),
                   kNoFd,
                   launch.task_directory,
                   theirs.get(),
                   launch.user_namespace,
                   launch.network_namespace,
                   launch.cgroup,
                   launch.stdout_fd,
                   launch.stderr_fd,
                   launch.image};
  const Message create = WithPassedFds(std::move(launch.create), fds);
  MOUNTD_ASSIGN(const UniqueFd memory,
                MemoryWith("mountd-task-shim", create.bytes()));
  fds.at(static_cast<std::size_t>(PassedFd::kCreateMessage)) = memory.get();
  MOUNTD_TRY(ForkShim(launch.program.c_str(), fds, launch.shim_cgroup));
  return ShimConnection(std::move(ours));
}

}  // namespace mountd::shim
