// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <vector>

#include "mountd/kernel/kernel_abi.h"
#include "mountd/kernel/real_kernel.h"

namespace mountd::exec {
namespace {

void CloseAllBut(std::span<const int> kept) {
  std::vector<int> keep(kept.begin(), kept.end());
  std::sort(keep.begin(), keep.end());
  // Keep the standard fds, because RunIn has put /dev/null there.
  unsigned first = 3;
  for (const int fd : keep) {
    const auto number = static_cast<unsigned>(fd);
    if (number > first) {
      ::close_range(first, number - 1, 0);
    }
    first = std::max(first, number + 1);
  }
  ::close_range(first, ~0U, 0);
}

void SetDefaultSignals() {
  for (int number = 1; number < NSIG; ++number) {
    ::signal(number, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Lifts the executor's own bound of its memory, because programs that the body
// starts may need more, and a FUSE server outlives the executor.
bool LiftMemoryBound() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_DATA, &limit) != 0) {
    return false;
  }
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_DATA, &limit) == 0;
}

// Runs the body in the child. Programs that the body starts inherit only the
// executor's capabilities.
[[noreturn]] void RunIn(const std::function<int()>& body,
                        std::span<const int> kept, pid_t executor) {
  // The child must not outlive the executor, which would kill it at the limit.
  // The executor may have ended before the signal was set.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || ::getppid() != executor) {
    ::_exit(EXIT_FAILURE);
  }
  // A session of its own makes a process group, which RunChild can kill.
  ::setsid();
  SetDefaultSignals();
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {0, 1, 2}) {
    if (null < 0 || ::dup2(null, standard) < 0) {
      ::_exit(EXIT_FAILURE);
    }
  }
  CloseAllBut(kept);
  if (!LiftMemoryBound() || ::clearenv() != 0 ||
      ::setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1) != 0 ||
      ::chdir("/") != 0) {
    ::_exit(EXIT_FAILURE);
  }
  // Programs do not expect the executor's umask of 0.
  ::umask(022);
  ::_exit(body());
}

// Returns true if the process ends within the limit.
bool EndsWithin(const UniqueFd& process, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd entry = {process.get(), POLLIN, 0};
    const int ready = ::poll(
        &entry, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready >= 0 || errno != EINTR) {
      return ready > 0;
    }
  }
}

// Returns whether a signal ended the child, which is not reaped yet.
bool WasKilled(pid_t child) {
  siginfo_t info = {};
  return ::waitid(P_PID, static_cast<id_t>(child), &info,
                  WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == child && info.si_code != CLD_EXITED;
}

}  // namespace

Sys<std::uint8_t> RealKernel::RunChild(const std::function<int()>& body,
                                       std::span<const int> kept,
                                       std::chrono::milliseconds limit) {
  // SIGKILL takes effect once the child leaves the kernel, which usually is at
  // once.
  constexpr std::chrono::milliseconds kGrace(500);
  const pid_t executor = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    return errno;
  }
  if (child == 0) {
    RunIn(body, kept, executor);
  }
  // Not pidfd_open of glibc 2.36, because its header lacks extern "C".
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  const bool in_time = process.valid() && EndsWithin(process, limit);
  if (!in_time) {
    // Kill the group too, for programs that the child started. A program with a
    // session of its own escapes.
    ::kill(-child, SIGKILL);
    // Kill the child itself, too, because it may not have called setsid(2) yet.
    ::kill(child, SIGKILL);
    if (process.valid() && !EndsWithin(process, kGrace)) {
      // The child is stuck in the kernel. init reaps it after this process has
      // ended.
      return ETIMEDOUT;
    }
  } else if (WasKilled(child)) {
    // Kill the rest of the group, because a helper of the child might mount
    // something after the plan has failed. The group's number is still valid,
    // because the child is not reaped yet.
    ::kill(-child, SIGKILL);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) {
    return ETIMEDOUT;
  }
  if (!WIFEXITED(status)) {
    // ECHILD stands for a child that a signal has ended.
    return ECHILD;
  }
  return static_cast<std::uint8_t>(WEXITSTATUS(status));
}

namespace {

UniqueFd OpenOwnMounts() {
  return UniqueFd(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
}

// Returns the namespace's id; 0 on a kernel without this call. Such a kernel
// gives later namespaces higher numbers.
std::uint64_t NamespaceIdOf(const UniqueFd& mounts) {
  std::uint64_t id = 0;
  return ::ioctl(mounts.get(), abi::kNamespaceId, &id) == 0 ? id : 0;
}

// Adds the namespaces that follow `mounts` in one direction.
Sys<void> WalkNamespaces(UniqueFd mounts, unsigned long direction,
                         std::vector<MountNamespaceName>* names) {
  for (;;) {
    abi::NamespaceInfo info;
    UniqueFd next(::ioctl(mounts.get(), direction, &info));
    struct stat facts = {};
    if (!next.valid()) {
      // ENOENT: no namespace follows in this direction (ioctl_nsfs(2)).
      return errno == ENOENT ? Sys<void>() : Sys<void>(errno);
    }
    if (::fstat(next.get(), &facts) < 0) {
      return errno;
    }
    names->push_back({std::uint64_t{facts.st_ino}, info.id});
    mounts = std::move(next);
  }
}

// Lets the thread run on a chosen CPU, and restores its CPUs at the end.
class OnCpu {
 public:
  OnCpu() {
    CPU_ZERO(&before_);
    known_ = ::sched_getaffinity(0, sizeof(before_), &before_) == 0;
  }
  ~OnCpu() {
    if (known_) {
      ::sched_setaffinity(0, sizeof(before_), &before_);
    }
  }
  OnCpu(const OnCpu&) = delete;
  OnCpu& operator=(const OnCpu&) = delete;
  bool Move(std::size_t cpu) const {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return known_ && CPU_ISSET(cpu, &before_) &&
           ::sched_setaffinity(0, sizeof(one), &one) == 0;
  }

 private:
  cpu_set_t before_;
  bool known_ = false;
};

}  // namespace

// Repeats the call on one CPU after the other until the new namespace has a
// higher number than the old one. Linux 6.18 keeps a reserve of numbers on each
// CPU, so a namespace made on another CPU may get a lower number.
Sys<void> RealKernel::NewMountNamespace() {
  const UniqueFd old = OpenOwnMounts();
  if (!old.valid() || ::unshare(CLONE_NEWNS) < 0) {
    return errno;
  }
  const OnCpu where;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    const std::uint64_t id = NamespaceIdOf(OpenOwnMounts());
    if (id == 0 || id > NamespaceIdOf(old)) {
      break;
    }
    if (!where.Move(cpu)) {
      continue;
    }
    if (::setns(old.get(), CLONE_NEWNS) < 0) {
      // Abort, because every later plan would act in the wrong namespace.
      std::abort();
    }
    if (::unshare(CLONE_NEWNS) < 0) {
      return errno;
    }
  }
  return {};
}

Sys<std::uint64_t> RealKernel::MountNamespaceOf(int process) {
  const UniqueFd mounts(::openat(process, "ns/mnt", O_RDONLY | O_CLOEXEC));
  std::uint64_t id = 0;
  if (!mounts.valid() || ::ioctl(mounts.get(), abi::kNamespaceId, &id) < 0) {
    return errno;
  }
  return id;
}

Sys<std::vector<MountNamespaceName>> RealKernel::MountNamespaces() {
  std::vector<MountNamespaceName> names;
  for (const unsigned long direction :
       {abi::kPreviousNamespace, abi::kNextNamespace}) {
    UniqueFd own = OpenOwnMounts();
    if (!own.valid()) {
      return errno;
    }
    MOUNTD_TRY(WalkNamespaces(std::move(own), direction, &names));
  }
  return names;
}

Sys<void> RealKernel::EnterMountNamespace(int mount_namespace) {
  return Done(::setns(mount_namespace, CLONE_NEWNS));
}

Sys<std::uint64_t> RealKernel::OwnerOf(int name_space) {
  const UniqueFd owner(::ioctl(name_space, NS_GET_USERNS));
  struct stat facts = {};
  if (!owner.valid() || ::fstat(owner.get(), &facts) < 0) {
    return errno;
  }
  return std::uint64_t{facts.st_ino};
}

Sys<uid_t> RealKernel::OwnerUidOf(int name_space) {
  const UniqueFd owner(::ioctl(name_space, NS_GET_USERNS));
  uid_t uid = 0;
  if (!owner.valid() || ::ioctl(owner.get(), NS_GET_OWNER_UID, &uid) < 0) {
    return errno;
  }
  return uid;
}

Sys<std::uint64_t> RealKernel::NamespaceTypeOf(int name_space) {
  const int type = ::ioctl(name_space, NS_GET_NSTYPE);
  if (type < 0) {
    return errno;
  }
  return static_cast<std::uint64_t>(type);
}

}  // namespace mountd::exec
