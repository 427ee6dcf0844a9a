// SPDX-License-Identifier: LGPL-2.1-or-later
//
// libmountd-bench-preload.so is in the daemons while bench/guard/run counts.
// Sends system calls that valgrind does not know by carriers (carrier.h), and
// ends a section of callgrind's profile at a signal. Changes nothing else.
#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <valgrind/callgrind.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>

#include "bench/guard/carrier.h"

namespace {

using mountd::bench::kCarrier;
using mountd::bench::kMarkSignal;

using SystemCall = long (*)(long, ...);

// From this number on valgrind 3.19 may not know a call. These numbers are the
// same on all architectures.
constexpr long kFirstUnknown = 424;

SystemCall Real() {
  static const auto real =
      reinterpret_cast<SystemCall>(::dlsym(RTLD_NEXT, "syscall"));
  return real;
}

// Leaves clone3 and close_range to valgrind's own handling. A real clone3 would
// start a thread that valgrind does not know, and a real close_range would
// close valgrind's files.
bool IsCarried(long number) {
  static const bool in_valgrind = RUNNING_ON_VALGRIND != 0;
  return in_valgrind && number >= kFirstUnknown && number != SYS_clone3 &&
         number != SYS_close_range;
}

long Call(long number, long a = 0, long b = 0, long c = 0, long d = 0,
          long e = 0, long f = 0) {
  if (IsCarried(number)) {
    return Real()(SYS_prctl, static_cast<long>(kCarrier) | number, a, b, c, d,
                  e);
  }
  return Real()(number, a, b, c, d, e, f);
}

long Number(const void* pointer) { return reinterpret_cast<long>(pointer); }

// Writes the profile's section, so that the counters begin at 0 again.
void Mark(int /*signal*/) {
  const int error = errno;
  CALLGRIND_DUMP_STATS;
  errno = error;
}

[[gnu::constructor]] void Begin() {
  // Sets the name again. The kernel reports a change of the ruleset with this
  // name, and mountd compares it.
  ::prctl(PR_SET_NAME, program_invocation_short_name);
  struct sigaction action = {};
  action.sa_handler = Mark;
  action.sa_flags = SA_RESTART;
  ::sigaction(kMarkSignal, &action, nullptr);
  Real();
}

}  // namespace

// Not from a header, because glibc's declarations differ between versions.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long arguments[6];  // NOLINT(modernize-avoid-c-arrays)
  for (long& argument : arguments) {
    argument = va_arg(list, long);
  }
  va_end(list);
  return Call(number, arguments[0], arguments[1], arguments[2], arguments[3],
              arguments[4], arguments[5]);
}

int fsopen(const char* type, unsigned flags) {
  return static_cast<int>(Call(SYS_fsopen, Number(type), flags));
}

int fsconfig(int fs, unsigned command, const char* key, const void* value,
             int extra) {
  return static_cast<int>(
      Call(SYS_fsconfig, fs, command, Number(key), Number(value), extra));
}

int fsmount(int fs, unsigned flags, unsigned attributes) {
  return static_cast<int>(Call(SYS_fsmount, fs, flags, attributes));
}

int open_tree(int directory, const char* path, unsigned flags) {
  return static_cast<int>(Call(SYS_open_tree, directory, Number(path), flags));
}

int move_mount(int from, const char* from_path, int to, const char* to_path,
               unsigned flags) {
  return static_cast<int>(Call(SYS_move_mount, from, Number(from_path), to,
                               Number(to_path), flags));
}

int mount_setattr(int directory, const char* path, unsigned flags,
                  void* attributes, unsigned long size) {
  return static_cast<int>(Call(SYS_mount_setattr, directory, Number(path),
                               flags, Number(attributes),
                               static_cast<long>(size)));
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
