// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/namespaces/child.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

namespace mountd::driver {
namespace {

// The child's end of the socket is not 0, 1 or 2, because the child closes
// these with all fds that it does not keep.
constexpr int kLowestKept = 3;
// A killed process ends at once, unless the kernel waits for a device. Then
// this process gives up after this time.
constexpr std::chrono::milliseconds kAfterKill(2000);

// Closes every fd that is not in `kept`, which is in ascending order.
void CloseOthers(const std::vector<int>& kept) {
  unsigned first = 0;
  for (const int fd : kept) {
    const auto number = static_cast<unsigned>(fd);
    if (number > first) {
      ::syscall(SYS_close_range, first, number - 1, 0U);
    }
    first = number + 1;
  }
  ::syscall(SYS_close_range, first, ~0U, 0U);
}

[[noreturn]] void RunChild(Child::Body body, const void* data, int socket,
                           pid_t parent, const std::vector<int>& kept) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {
    ::_exit(1);  // the parent ended before prctl(2)
  }
  CloseOthers(kept);
  body(socket, data);
  ::_exit(0);
}

void Kill(int process) {
  ::syscall(SYS_pidfd_send_signal, process, SIGKILL, nullptr, 0U);
}

// Waits for the end and does not reap the process. False at the deadline.
bool Ended(int process, const Deadline& deadline) {
  pollfd ended{process, POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&ended, 1, deadline.LeftMs());
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

EndOfProcess Reap(int process) {
  siginfo_t info{};
  int failed = 0;
  do {
    failed =
        ::waitid(P_PIDFD, static_cast<id_t>(process), &info, WEXITED | WNOHANG);
  } while (failed != 0 && errno == EINTR);
  if (failed != 0 || info.si_pid == 0) {
    return {};
  }
  return {info.si_code, info.si_status};
}

}  // namespace

Result<EndOfProcess> AwaitEnd(int process, const Deadline& deadline,
                              const char* what) {
  if (Ended(process, deadline)) {
    return Reap(process);
  }
  Kill(process);
  Ended(process, Deadline(kAfterKill));
  Reap(process);
  return MakeError(Code::kDeadlineExceeded, what, "",
                   "the process was killed at its deadline; call again");
}

Result<UniqueFd> PidfdOfChild(pid_t child, const char* what) {
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, child, 0U)));
  if (process.valid()) {
    return process;
  }
  const int failed = errno;
  if (failed == ESRCH) {
    return ForkError(ECHILD, what, "");
  }
  // The pid is still the child's, because nobody has waited for it yet.
  ::kill(child, SIGKILL);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return ErrnoError(failed, "pidfd_open", what);
}

Child::Child(pid_t pid, UniqueFd process, UniqueFd socket)
    : pid_(pid), process_(std::move(process)), socket_(std::move(socket)) {}

Child::~Child() {
  socket_.reset();
  if (process_.valid()) {
    Kill(process_.get());
    Ended(process_.get(), Deadline(kAfterKill));
    Reap(process_.get());
  }
}

Result<Child> Child::Fork(Body body, const void* data, std::vector<int> kept) {
  if (std::any_of(kept.begin(), kept.end(), [](int fd) { return fd < 0; })) {
    return ErrnoError(EBADF, "fork", "", "a file to keep is not open");
  }
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) !=
      0) {
    return ErrnoError(errno, "socketpair", "");
  }
  UniqueFd ours(ends[0]);
  const UniqueFd low(ends[1]);
  const UniqueFd theirs(::fcntl(low.get(), F_DUPFD_CLOEXEC, kLowestKept));
  if (!theirs.valid()) {
    return ErrnoError(errno, "fcntl", "");
  }
  kept.push_back(theirs.get());
  std::sort(kept.begin(), kept.end());
  // A handler of the parent must not run in the child.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    RunChild(body, data, theirs.get(), parent, kept);
  }
  const int failed = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    return ForkError(failed, "fork", "");
  }
  MOUNTD_ASSIGN(UniqueFd process, PidfdOfChild(pid, "fork"));
  return Child(pid, std::move(process), std::move(ours));
}

Result<ChildReport> Child::Receive(const Deadline& deadline) const {
  pollfd readable{socket_.get(), POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&readable, 1, deadline.LeftMs());
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) {
    return MakeError(Code::kDeadlineExceeded, "namespaces", "",
                     "the process in the namespaces did not answer; call "
                     "again");
  }
  ChildReport report;
  ssize_t got = 0;
  do {
    got = ::recv(socket_.get(), &report, sizeof(report), 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof(report))) {
    return ForkError(ECHILD, "namespaces", "");
  }
  return report;
}

bool Child::HasEnded() const {
  return Ended(process_.get(), Deadline(std::chrono::milliseconds(0)));
}

Result<void> Child::Send() const {
  if (::send(socket_.get(), "g", 1, MSG_NOSIGNAL) != 1) {
    return ForkError(ECHILD, "namespaces", "");
  }
  return Ok();
}

void ReportStep(int socket, int step, int error) {
  const ChildReport report{step, error};
  if (::send(socket, &report, sizeof(report), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(sizeof(report))) {
    ::_exit(1);
  }
}

void AwaitParent(int socket) {
  char byte = 0;
  if (::recv(socket, &byte, 1, 0) != 1) {
    ::_exit(1);
  }
}

}  // namespace mountd::driver
