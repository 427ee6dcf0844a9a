// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <poll.h>
#include <sys/fanotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "mountd/kernel/kernel_abi.h"
#include "mountd/kernel/real_kernel.h"

// Presence and health of mounts.
namespace mountd::exec {
namespace {

// Returns an errno, or 0, as the child's exit status.
[[noreturn]] void AskFilesystem(int fd) {
  // If the executor ends, nobody else would kill the child.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Close every other fd, because a child that cannot be killed must hold no
  // object of the executor's. Above all it must not hold the connection,
  // because mountd notices the executor's end by the connection's end.
  constexpr int kAsked = 0;
  if (::dup2(fd, kAsked) < 0) {
    ::_exit(EIO);
  }
  ::syscall(SYS_close_range, kAsked + 1, ~0U, 0);
  struct statfs answer = {};
  ::_exit(::fstatfs(kAsked, &answer) == 0 ? 0 : errno);
}

// Returns whether the child has ended, and sets its status.
bool Reaped(pid_t child, int* status) {
  return ::waitpid(child, status, WNOHANG) == child;
}

bool EndsWithin(int pidfd, std::chrono::milliseconds time) {
  pollfd entry = {pidfd, POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&entry, 1, static_cast<int>(time.count()));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

}  // namespace

Sys<UniqueFd> RealKernel::WatchMounts(int mount_namespace) {
  UniqueFd group(static_cast<int>(
      ::syscall(SYS_fanotify_init,
                // FAN_NONBLOCK, because mountd's loop reads the group.
                FAN_CLOEXEC | FAN_NONBLOCK | abi::kFanReportMount, O_RDONLY)));
  if (!group.valid() || ::syscall(SYS_fanotify_mark, group.get(),
                                  FAN_MARK_ADD | abi::kFanMarkMountNamespace,
                                  abi::kFanMountAttach | abi::kFanMountDetach,
                                  mount_namespace, nullptr) < 0) {
    return errno;
  }
  return group;
}

Sys<UniqueFd> RealKernel::MakeMemory(std::span<const std::byte> content) {
  UniqueFd fd(::memfd_create("mountd", MFD_CLOEXEC));
  while (fd.valid() && !content.empty()) {
    const ssize_t written = ::write(fd.get(), content.data(), content.size());
    if (written < 0 && errno != EINTR) {
      return errno;
    }
    content = content.subspan(
        static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
  if (!fd.valid()) {
    return errno;
  }
  return fd;
}

Sys<ProbeOutcome> RealKernel::ProbeFilesystem(
    int fd, std::chrono::milliseconds deadline) {
  // Reap earlier children that have ended meanwhile.
  std::erase_if(lost_children_, [](pid_t child) {
    int status = 0;
    return Reaped(child, &status);
  });
  const pid_t child = ::fork();
  if (child < 0) {
    return errno;
  }
  if (child == 0) {
    AskFilesystem(fd);
  }
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  ProbeOutcome outcome;
  outcome.timed_out = !pidfd.valid() || !EndsWithin(pidfd.get(), deadline);
  int status = 0;
  if (outcome.timed_out) {
    constexpr std::chrono::milliseconds kToDie(200);
    ::kill(child, SIGKILL);
    if (!pidfd.valid() || !EndsWithin(pidfd.get(), kToDie) ||
        !Reaped(child, &status)) {
      // A child that hangs in the kernel dies when its system call ends, and a
      // later probe reaps it.
      lost_children_.push_back(child);
    }
  } else if (!Reaped(child, &status) || !WIFEXITED(status)) {
    return ECHILD;  // this says nothing about the file system
  } else {
    outcome.error = WEXITSTATUS(status);
  }
  outcome.lost_children = static_cast<std::uint32_t>(lost_children_.size());
  return outcome;
}

}  // namespace mountd::exec
