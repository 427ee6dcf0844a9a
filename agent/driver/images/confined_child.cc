// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/confined_child.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

namespace mountd::driver {
namespace {

enum Step : int {
  kNothing,
  kEnter,
  kBecomeRoot,
  kDieWithParent,
  kUnshare,
  kMakePrivate,
  kMakeReadOnly,
  kMakeWritable,
  kChangeDirectory,
  kLimit,
  kDropCapabilities,
  kStandardFiles,
  kExecute,
};
constexpr std::array<const char*, kExecute + 1> kStepNames{
    "",
    "setns",
    "setresuid",
    "prctl",
    "unshare",
    "mount private",
    "mount_setattr read-only",
    "mount_setattr writable",
    "chdir",
    "setrlimit",
    "drop capabilities",
    "dup2",
    "execve"};

// skopeo holds an image's manifests in memory, and umoci holds some blocks for
// each processor. A malformed document may make them use more. Then the limit
// ends the program.
constexpr rlim_t kMaxMemory = rlim_t{2} << 30U;

// Writing files with owners, modes and file capabilities needs these. Without
// CAP_SYS_ADMIN the program cannot make a file system writable again.
constexpr std::array kKept{CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID,
                           CAP_SETFCAP};
constexpr int kLastPossibleCapability = 63;

[[noreturn]] void Fail(const ChildPlan& plan, Step step) {
  const ConfinedReport report{step, errno};
  // The parent sees the end of the pipe if this write fails.
  const ssize_t ignored = ::write(plan.report_fd, &report, sizeof(report));
  static_cast<void>(ignored);
  ::_exit(127);
}

bool SetMountFlags(const char* path, unsigned flags, std::uint64_t set,
                   std::uint64_t clear) {
  mount_attr attributes{};
  attributes.attr_set = set;
  attributes.attr_clr = clear;
  return ::syscall(SYS_mount_setattr, AT_FDCWD, path, flags, &attributes,
                   sizeof(attributes)) == 0;
}

void EnterNamespaces(const ChildPlan& plan) {
  if (::setns(plan.user_namespace, CLONE_NEWUSER) != 0) {
    Fail(plan, kEnter);
  }
  // Makes the system calls directly, because glibc's setresuid changes every
  // thread and takes a lock for it.
  if (::syscall(SYS_setresgid, 0, 0, 0) != 0 ||
      ::syscall(SYS_setresuid, 0, 0, 0) != 0) {
    Fail(plan, kBecomeRoot);
  }
  // prctl(2) comes after the change of ids, because a change of ids clears the
  // signal.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    Fail(plan, kDieWithParent);
  }
  if (::getppid() != plan.parent) {
    ::_exit(127);
  }
  if (::unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC) != 0) {
    Fail(plan, kUnshare);
  }
}

void LimitMounts(const ChildPlan& plan) {
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    Fail(plan, kMakePrivate);
  }
  if (!SetMountFlags("/", AT_RECURSIVE, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID,
                     0)) {
    Fail(plan, kMakeReadOnly);
  }
  if (plan.writable != nullptr &&
      (::mount(plan.writable, plan.writable, nullptr, MS_BIND, nullptr) != 0 ||
       !SetMountFlags(plan.writable, 0, MOUNT_ATTR_NODEV, MOUNT_ATTR_RDONLY))) {
    Fail(plan, kMakeWritable);
  }
  if (::chdir(plan.writable != nullptr ? plan.writable : "/") != 0) {
    Fail(plan, kChangeDirectory);
  }
}

void LimitProgram(const ChildPlan& plan) {
  const rlimit file{plan.max_file_bytes, plan.max_file_bytes};
  const rlimit memory{kMaxMemory, kMaxMemory};
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_FSIZE, &file) != 0 ||
      ::setrlimit(RLIMIT_DATA, &memory) != 0 ||
      ::setrlimit(RLIMIT_CORE, &none) != 0) {
    Fail(plan, kLimit);
  }
  ::umask(022);
  for (int capability = 0; capability <= kLastPossibleCapability;
       ++capability) {
    bool kept = false;
    for (const int one : kKept) {
      kept = kept || one == capability;
    }
    // EINVAL: the kernel has no such capability.
    if (!kept && ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 &&
        errno != EINVAL) {
      Fail(plan, kDropCapabilities);
    }
  }
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    Fail(plan, kDropCapabilities);
  }
}

void SetFiles(const ChildPlan& plan) {
  // The parent's fds are 3 or higher, so that no dup2 overwrites a source.
  if (::dup2(plan.null_fd, STDIN_FILENO) < 0 ||
      ::dup2(plan.out_fd, STDOUT_FILENO) < 0 ||
      ::dup2(plan.error_fd, STDERR_FILENO) < 0 ||
      // An fd of some library may lack close-on-exec.
      ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) != 0 ||
      (plan.inherited >= 0 && ::fcntl(plan.inherited, F_SETFD, 0) != 0)) {
    Fail(plan, kStandardFiles);
  }
}

void ResetSignals() {
  for (int number = 1; number < NSIG; ++number) {
    // A program inherits ignored signals. SIGKILL and SIGSTOP give EINVAL.
    ::signal(number, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace

const char* ChildStepName(int step) {
  return step > kNothing && step <= kExecute
             ? kStepNames[static_cast<std::size_t>(step)]
             : "start";
}

void BecomeConfined(const ChildPlan& plan) {
  EnterNamespaces(plan);
  LimitMounts(plan);
  LimitProgram(plan);
  SetFiles(plan);
  ResetSignals();
  ::execve(plan.argv[0], plan.argv, plan.environment);
  Fail(plan, kExecute);
}

}  // namespace mountd::driver
