// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/agent/driver/oci/steps/kill_at_step.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>

#include "mountd/base/number.h"

extern "C" long syscall(long number, ...) noexcept;
extern "C" char* program_invocation_short_name;

namespace mountd::driver::testing {
namespace {

// 0: this process counts nothing.
std::atomic<long> owner{0};
std::atomic<int> steps{0};

// All of these are calls of the kernel, because libc's are replaced.
long Open(const char* path, int flags) {
  return ::syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0666);
}

int ArmedStep() {
  const char* path = std::getenv(kArmVariable);
  const long file = path == nullptr ? -1 : Open(path, O_RDONLY);
  if (file < 0) {
    return 0;
  }
  std::array<char, 16> text{};
  const long size = ::syscall(SYS_read, file, text.data(), text.size());
  ::syscall(SYS_close, file);
  const std::string_view number(text.data(),
                                static_cast<std::size_t>(size > 0 ? size : 0));
  return ParseNumber<int>(number).value_or(0);
}

// Gives up after a while, because the file may never come.
void AwaitFile() {
  constexpr int kTries = 600;
  constexpr long kPauseNs = 5'000'000;
  const char* path = std::getenv(kAwaitVariable);
  for (int tries = 0; path != nullptr && tries < kTries; ++tries) {
    if (::syscall(SYS_faccessat, AT_FDCWD, path, 0) == 0) {
      return;
    }
    const timespec pause{0, kPauseNs};
    ::syscall(SYS_nanosleep, &pause, nullptr);
  }
}

void Step(const char* name) {
  if (owner == 0 || owner != ::syscall(SYS_getpid)) {
    return;
  }
  const int error = errno;
  const int armed = ArmedStep();
  if (armed != 0 && ++steps == armed) {
    const long mark =
        Open(std::getenv(kMarkVariable), O_WRONLY | O_CREAT | O_EXCL);
    if (mark >= 0) {
      if (std::strcmp(name, "sendmsg") == 0) {
        AwaitFile();
      }
      ::syscall(SYS_write, mark, name, std::strlen(name));
      ::syscall(SYS_kill, owner.load(), SIGKILL);
    }
  }
  errno = error;
}

// Runs before the program's main.
__attribute__((constructor)) void CountIfNamed() {
  const char* program = std::getenv(kProgramVariable);
  if (program != nullptr &&
      std::strcmp(program, program_invocation_short_name) == 0) {
    CountStepsHere();
  }
}

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

void CountStepsHere() {
  steps = 0;
  owner = ::syscall(SYS_getpid);
}

}  // namespace mountd::driver::testing

// The calls of libc. No header declares them here, because libc's declarations
// have other attributes.
#define MOUNTD_STEP(type, name, parameters, arguments)         \
  extern "C" type name parameters;                             \
  extern "C" type name parameters {                            \
    static auto* const next =                                  \
        mountd::driver::testing::Next<type parameters>(#name); \
    mountd::driver::testing::Step(#name);                      \
    return next arguments;                                     \
  }

struct sockaddr;
struct msghdr;

// NOLINTBEGIN(readability-identifier-naming): the names are libc's.
// NOLINTBEGIN(bugprone-macro-parentheses): types and lists of parameters.
MOUNTD_STEP(int, unlink, (const char* path), (path))
MOUNTD_STEP(int, unlinkat, (int at, const char* path, int flags),
            (at, path, flags))
MOUNTD_STEP(int, rmdir, (const char* path), (path))
MOUNTD_STEP(int, rename, (const char* from, const char* to), (from, to))
MOUNTD_STEP(int, renameat,
            (int from_at, const char* from, int to_at, const char* to),
            (from_at, from, to_at, to))
MOUNTD_STEP(int, renameat2,
            (int from_at, const char* from, int to_at, const char* to,
             unsigned flags),
            (from_at, from, to_at, to, flags))
MOUNTD_STEP(int, mkdir, (const char* path, unsigned mode), (path, mode))
MOUNTD_STEP(int, mkdirat, (int at, const char* path, unsigned mode),
            (at, path, mode))
MOUNTD_STEP(int, mkfifo, (const char* path, unsigned mode), (path, mode))
MOUNTD_STEP(int, symlinkat, (const char* to, int at, const char* path),
            (to, at, path))
MOUNTD_STEP(int, chmod, (const char* path, unsigned mode), (path, mode))
MOUNTD_STEP(int, fchmod, (int fd, unsigned mode), (fd, mode))
MOUNTD_STEP(int, chown, (const char* path, unsigned user, unsigned group),
            (path, user, group))
MOUNTD_STEP(int, fchown, (int fd, unsigned user, unsigned group),
            (fd, user, group))
MOUNTD_STEP(int, fsync, (int fd), (fd))
MOUNTD_STEP(int, ftruncate, (int fd, long size), (fd, size))
MOUNTD_STEP(int, posix_fallocate, (int fd, long from, long size),
            (fd, from, size))
MOUNTD_STEP(long, write, (int fd, const void* bytes, unsigned long size),
            (fd, bytes, size))
MOUNTD_STEP(long, pwrite,
            (int fd, const void* bytes, unsigned long size, long at),
            (fd, bytes, size, at))
MOUNTD_STEP(int, bind, (int fd, const struct sockaddr* name, unsigned size),
            (fd, name, size))
MOUNTD_STEP(int, listen, (int fd, int backlog), (fd, backlog))
MOUNTD_STEP(int, connect, (int fd, const struct sockaddr* name, unsigned size),
            (fd, name, size))
MOUNTD_STEP(long, sendmsg, (int fd, const struct msghdr* message, int flags),
            (fd, message, flags))
MOUNTD_STEP(int, mount,
            (const char* source, const char* target, const char* type,
             unsigned long flags, const void* options),
            (source, target, type, flags, options))
MOUNTD_STEP(int, setns, (int fd, int type), (fd, type))
MOUNTD_STEP(int, unshare, (int flags), (flags))
MOUNTD_STEP(int, fork, (), ())
MOUNTD_STEP(int, kill, (int pid, int signal), (pid, signal))
MOUNTD_STEP(int, waitpid, (int pid, int* status, int flags),
            (pid, status, flags))

// Each of these has at most six arguments, and the kernel reads no more of them
// than the call has.
extern "C" long syscall(long number, ...) noexcept {
  using Syscall = long(long, ...);
  static auto* const next = mountd::driver::testing::Next<Syscall>("syscall");
  if (number == SYS_clone3) {
    mountd::driver::testing::Step("clone3");
  } else if (number == SYS_pidfd_send_signal) {
    mountd::driver::testing::Step("pidfd_send_signal");
  }
  std::array<long, 6> words{};
  va_list list;
  va_start(list, number);
  for (long& word : words) {
    word = va_arg(list, long);
  }
  va_end(list);
  return next(number, words[0], words[1], words[2], words[3], words[4],
              words[5]);
}
// NOLINTEND(bugprone-macro-parentheses)
// NOLINTEND(readability-identifier-naming)
