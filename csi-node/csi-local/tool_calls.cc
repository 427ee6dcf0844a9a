// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/tool_calls.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sched.h>
#include <seccomp.h>

#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <memory>

namespace mountd::csi_local {
namespace {

using ToolCalls = std::initializer_list<int>;

constexpr ToolCalls kToolMay = {
    // descriptors
    SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(pread64), SCMP_SYS(preadv),
    SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(pwrite64), SCMP_SYS(pwritev),
    SCMP_SYS(lseek), SCMP_SYS(close), SCMP_SYS(dup), SCMP_SYS(dup2),
    SCMP_SYS(dup3), SCMP_SYS(fcntl), SCMP_SYS(fstat), SCMP_SYS(fstatfs),
    SCMP_SYS(fsync), SCMP_SYS(fdatasync), SCMP_SYS(sync_file_range),
    SCMP_SYS(fadvise64), SCMP_SYS(fallocate), SCMP_SYS(ftruncate),
    SCMP_SYS(getdents64), SCMP_SYS(poll),
    // names, without making or removing any
    SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(stat),
    SCMP_SYS(lstat), SCMP_SYS(newfstatat), SCMP_SYS(statx), SCMP_SYS(statfs),
    SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(getcwd),
    // memory
    SCMP_SYS(brk), SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mremap),
    SCMP_SYS(mprotect), SCMP_SYS(madvise),
    // threads
    SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(set_tid_address),
    SCMP_SYS(rseq), SCMP_SYS(gettid), SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity), SCMP_SYS(arch_prctl), SCMP_SYS(exit),
    SCMP_SYS(exit_group), SCMP_SYS(restart_syscall),
    // signals, and abort(3)
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack), SCMP_SYS(tgkill),
    // time, random bytes and identity
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday),
    SCMP_SYS(time), SCMP_SYS(times), SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep), SCMP_SYS(getrandom), SCMP_SYS(uname),
    SCMP_SYS(sysinfo), SCMP_SYS(getrusage), SCMP_SYS(getrlimit),
    SCMP_SYS(getpid), SCMP_SYS(getppid), SCMP_SYS(getuid), SCMP_SYS(geteuid),
    SCMP_SYS(getgid), SCMP_SYS(getegid), SCMP_SYS(umask),
    // This process becomes the tool by execve. The tool could become another
    // program, which would be confined as well.
    SCMP_SYS(execve)};

constexpr std::uint64_t kMakesFile = O_CREAT | (O_TMPFILE & ~O_DIRECTORY);

// Requests that read a regular file's extents, block size and flags.
constexpr std::initializer_list<unsigned long> kToolIoctls = {
    FS_IOC_FIEMAP, FIGETBSZ, FS_IOC_GETFLAGS, FS_IOC_FSGETXATTR};

class ToolFilter {
 public:
  ToolFilter() : filter_(seccomp_init(SCMP_ACT_ERRNO(EPERM))) {
    Keep(filter_ == nullptr ? -ENOMEM : 0);
  }
  ~ToolFilter() { seccomp_release(filter_); }
  ToolFilter(const ToolFilter&) = delete;
  ToolFilter& operator=(const ToolFilter&) = delete;

  void Allow(int call) {
    Keep(seccomp_rule_add(filter_, SCMP_ACT_ALLOW, call, 0));
  }
  void AllowIf(int call, const scmp_arg_cmp& argument) {
    Keep(seccomp_rule_add_array(filter_, SCMP_ACT_ALLOW, call, 1, &argument));
  }
  void Refuse(int call, std::uint16_t error) {
    Keep(seccomp_rule_add(filter_, SCMP_ACT_ERRNO(error), call, 0));
  }
  Result<void> Load() {
    Keep(seccomp_attr_set(filter_, SCMP_FLTATR_ACT_BADARCH,
                          SCMP_ACT_KILL_PROCESS));
    Keep(seccomp_load(filter_));
    return result_ == 0 ? Ok()
                        : Result<void>(ErrnoError(-result_, "seccomp", "tool"));
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

scmp_arg_cmp MaskedArgument(unsigned number, std::uint64_t mask,
                            std::uint64_t value) {
  return {number, SCMP_CMP_MASKED_EQ, mask, value};
}

}  // namespace

Result<void> RestrictToolCalls() {
  ToolFilter filter;
  for (const int call : kToolMay) {
    filter.Allow(call);
  }
  filter.AllowIf(SCMP_SYS(open), MaskedArgument(1, kMakesFile, 0));
  filter.AllowIf(SCMP_SYS(openat), MaskedArgument(2, kMakesFile, 0));
  for (const unsigned long request : kToolIoctls) {
    filter.AllowIf(SCMP_SYS(ioctl), {1, SCMP_CMP_EQ, request, 0});
  }
  // Allows reading limits and not setting them.
  filter.AllowIf(SCMP_SYS(prlimit64), {2, SCMP_CMP_EQ, 0, 0});
  // Allows threads but no processes. ENOSYS makes glibc use clone() instead of
  // clone3().
  filter.Refuse(SCMP_SYS(clone3), ENOSYS);
  filter.AllowIf(SCMP_SYS(clone),
                 MaskedArgument(0, CLONE_THREAD, CLONE_THREAD));
  return filter.Load();
}

}  // namespace mountd::csi_local
