// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/mountd-csi/system_calls.h"

#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>

namespace mountd::csi {
namespace {

#ifdef MOUNTD_SANITIZED
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

// This bound is enough for some twenty plugins that all use the most memory.
constexpr rlim_t kMaxMemory = rlim_t{1} << 30U;

using Calls = std::initializer_list<int>;

// The calls of gRPC's threads, of glibc 2.36 to 2.41 and of this program, all
// of them on this process's own descriptors and memory. They were measured over
// the tests; glibc uses some of them only on other kernels.
constexpr Calls kAllowed = {
    // descriptors
    SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(pread64), SCMP_SYS(write),
    SCMP_SYS(writev), SCMP_SYS(lseek), SCMP_SYS(close), SCMP_SYS(fcntl),
    SCMP_SYS(fstat), SCMP_SYS(dup), SCMP_SYS(poll), SCMP_SYS(ppoll),
    SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait),
    SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_pwait2), SCMP_SYS(eventfd2),
    // sockets that exist
    SCMP_SYS(accept4), SCMP_SYS(getsockname), SCMP_SYS(getpeername),
    SCMP_SYS(getsockopt), SCMP_SYS(setsockopt), SCMP_SYS(sendmsg),
    SCMP_SYS(recvmsg), SCMP_SYS(sendto), SCMP_SYS(recvfrom), SCMP_SYS(shutdown),
    // memory
    SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise),
    // threads
    SCMP_SYS(futex), SCMP_SYS(futex_waitv), SCMP_SYS(set_robust_list),
    SCMP_SYS(rseq), SCMP_SYS(gettid), SCMP_SYS(membarrier),
    SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity),
    // absl's locks ask for their thread's priority if they are contended
    SCMP_SYS(sched_getparam), SCMP_SYS(sched_getscheduler), SCMP_SYS(getcpu),
    SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(restart_syscall),
    // signals
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack),
    // time, random bytes and identity
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday),
    SCMP_SYS(time), SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep),
    SCMP_SYS(getrandom), SCMP_SYS(uname), SCMP_SYS(sysinfo),
    SCMP_SYS(getrusage), SCMP_SYS(getpid), SCMP_SYS(getppid), SCMP_SYS(getuid),
    SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid)};

// Calls that libraries make in passing, for the number of CPUs or the time
// zone.
constexpr Calls kRefused = {SCMP_SYS(open),       SCMP_SYS(openat),
                            SCMP_SYS(openat2),    SCMP_SYS(access),
                            SCMP_SYS(faccessat),  SCMP_SYS(faccessat2),
                            SCMP_SYS(readlink),   SCMP_SYS(readlinkat),
                            SCMP_SYS(stat),       SCMP_SYS(lstat),
                            SCMP_SYS(statx),      SCMP_SYS(statfs),
                            SCMP_SYS(getcwd),     SCMP_SYS(socket),
                            SCMP_SYS(socketpair), SCMP_SYS(connect),
                            SCMP_SYS(bind),       SCMP_SYS(listen),
                            SCMP_SYS(ioctl),      SCMP_SYS(sched_setaffinity)};

// The most dangerous of the forbidden calls. A build with sanitizers forbids
// only these, because the sanitizer's runtime needs other forbidden calls.
constexpr Calls kDeadly = {SCMP_SYS(execve),
                           SCMP_SYS(execveat),
                           SCMP_SYS(mount),
                           SCMP_SYS(umount2),
                           SCMP_SYS(open_tree),
                           SCMP_SYS(move_mount),
                           SCMP_SYS(fsopen),
                           SCMP_SYS(setns),
                           SCMP_SYS(unshare),
                           SCMP_SYS(pivot_root),
                           SCMP_SYS(chroot),
                           SCMP_SYS(bpf),
                           SCMP_SYS(perf_event_open),
                           SCMP_SYS(io_uring_setup),
                           SCMP_SYS(userfaultfd),
                           SCMP_SYS(keyctl),
                           SCMP_SYS(process_vm_readv),
                           SCMP_SYS(process_vm_writev),
                           SCMP_SYS(pidfd_getfd),
                           SCMP_SYS(init_module),
                           SCMP_SYS(kexec_load),
                           SCMP_SYS(setuid),
                           SCMP_SYS(setgid),
                           SCMP_SYS(setresuid)};

// Collects rules and keeps the first failure.
class Filter {
 public:
  explicit Filter(std::uint32_t otherwise) : filter_(seccomp_init(otherwise)) {
    if (filter_ == nullptr) {
      result_ = -ENOMEM;
    }
  }
  ~Filter() { seccomp_release(filter_); }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

  void Add(std::uint32_t action, const Calls& calls) {
    for (const int call : calls) {
      Keep(seccomp_rule_add(filter_, action, call, 0));
    }
  }
  // Adds a rule for calls whose argument matches `argument`.
  void AddIf(std::uint32_t action, int call, scmp_arg_cmp argument) {
    Keep(seccomp_rule_add_array(filter_, action, call, 1, &argument));
  }
  Result<void> Load() {
    Keep(seccomp_attr_set(filter_, SCMP_FLTATR_ACT_BADARCH,
                          SCMP_ACT_KILL_PROCESS));
    Keep(seccomp_load(filter_));
    return result_ == 0
               ? Ok()
               : Result<void>(ErrnoError(-result_, "seccomp", "mountd-csi"));
  }

 private:
  void Keep(int result) {
    if (result_ == 0) {
      result_ = result;
    }
  }

  scmp_filter_ctx filter_;
  int result_ = 0;
};

scmp_arg_cmp Argument(unsigned number, scmp_compare compare, std::uint64_t a,
                      std::uint64_t b = 0) {
  return {number, compare, a, b};
}

void AddStrict(Filter* filter) {
  const std::uint32_t refuse = SCMP_ACT_ERRNO(EACCES);
  filter->Add(SCMP_ACT_ALLOW, kAllowed);
  filter->Add(refuse, kRefused);
  // Allowed on a descriptor and not on a path, because glibc's fstat uses it.
  filter->AddIf(SCMP_ACT_ALLOW, SCMP_SYS(newfstatat),
                Argument(3, SCMP_CMP_MASKED_EQ, AT_EMPTY_PATH, AT_EMPTY_PATH));
  filter->AddIf(refuse, SCMP_SYS(newfstatat),
                Argument(3, SCMP_CMP_MASKED_EQ, AT_EMPTY_PATH, 0));
  // Allows threads but no processes. ENOSYS makes glibc use clone instead of
  // clone3.
  filter->Add(SCMP_ACT_ERRNO(ENOSYS), {SCMP_SYS(clone3)});
  filter->AddIf(SCMP_ACT_ALLOW, SCMP_SYS(clone),
                Argument(0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
  // Allows no new executable memory.
  for (const int call : {SCMP_SYS(mmap), SCMP_SYS(mprotect)}) {
    filter->AddIf(SCMP_ACT_ALLOW, call,
                  Argument(2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
  }
  filter->AddIf(SCMP_ACT_ALLOW, SCMP_SYS(prctl),
                Argument(0, SCMP_CMP_EQ, PR_SET_NAME));
  filter->AddIf(refuse, SCMP_SYS(prctl), Argument(0, SCMP_CMP_NE, PR_SET_NAME));
  // Allows reading limits and not setting them.
  filter->AddIf(SCMP_ACT_ALLOW, SCMP_SYS(prlimit64),
                Argument(2, SCMP_CMP_EQ, 0));
  // abort(3) uses tgkill.
  filter->AddIf(
      SCMP_ACT_ALLOW, SCMP_SYS(tgkill),
      Argument(0, SCMP_CMP_EQ, static_cast<std::uint64_t>(::getpid())));
}

}  // namespace

Result<void> RestrictMemory() {
  // RLIMIT_DATA also counts the private memory of mmap(2), since Linux 4.7
  // (setrlimit(2)).
  const rlimit limit{kMaxMemory, kMaxMemory};
  if (!kSanitized && ::setrlimit(RLIMIT_DATA, &limit) != 0) {
    return ErrnoError(errno, "setrlimit", "mountd-csi");
  }
  return Ok();
}

Result<void> RestrictSystemCalls() {
  Filter filter(kSanitized ? SCMP_ACT_ALLOW : SCMP_ACT_KILL_PROCESS);
  if (kSanitized) {
    filter.Add(SCMP_ACT_KILL_PROCESS, kDeadly);
  } else {
    AddStrict(&filter);
  }
  return filter.Load();
}

}  // namespace mountd::csi
