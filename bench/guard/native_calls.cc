// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-bench-native PRELOAD COMMAND [ARGUMENT...]: executes the command with
// PRELOAD in LD_PRELOAD, and makes the system calls that the command sends by
// carriers (carrier.h).
//
// The command keeps this process's id, as a service has to. The tracer is a
// process beside it, and ends with the last process it traces.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/guard/carrier.h"

#ifndef __x86_64__
#error \
    "which registers a system call's arguments are in is known of x86-64 alone"
#endif

namespace mountd::bench {
namespace {

[[noreturn]] void Fail(const char* step) {
  std::fprintf(stderr, "mountd-bench-native: %s: %s\n", step,
               std::strerror(errno));
  ::_exit(126);
}

void Check(long result, const char* step) {
  if (result < 0) {
    Fail(step);
  }
}

// Stops only at the carrier, so that all other calls stay fast.
void StopAtCarriers() {
  constexpr unsigned kOption = offsetof(seccomp_data, args[0]);
  std::array<sock_filter, 7> code = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kOption),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kCarrierMask),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kCarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program = {code.size(), code.data()};
  // seccomp(2) needs no_new_privs in a process without CAP_SYS_ADMIN.
  Check(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
  Check(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "seccomp");
}

// The registers of a system call on x86-64: rdi, rsi, rdx, r10, r8, r9.
void MakeRealCall(pid_t process) {
  user_regs_struct all = {};
  if (::ptrace(PTRACE_GETREGS, process, nullptr, &all) != 0) {
    return;
  }
  all.orig_rax = all.rdi & ~kCarrierMask & 0xffffffffU;
  all.rdi = all.rsi;
  all.rsi = all.rdx;
  all.rdx = all.r10;
  all.r10 = all.r8;
  all.r8 = all.r9;
  all.r9 = 0;
  ::ptrace(PTRACE_SETREGS, process, nullptr, &all);
}

bool IsStopSignal(int number) {
  return number == SIGSTOP || number == SIGTSTP || number == SIGTTIN ||
         number == SIGTTOU;
}

void GoOn(pid_t process, int status) {
  const int number = WSTOPSIG(status);
  const int event = status >> 16;
  if (event == PTRACE_EVENT_SECCOMP) {
    MakeRealCall(process);
  }
  if (event == PTRACE_EVENT_STOP && IsStopSignal(number)) {
    // PTRACE_LISTEN keeps the process stopped, as a group-stop has to
    // (ptrace(2)).
    ::ptrace(PTRACE_LISTEN, process, nullptr, nullptr);
    return;
  }
  // A stop for an event has no signal to deliver.
  const long signal = event == 0 ? number : 0;
  ::ptrace(PTRACE_CONT, process, nullptr, signal);
}

[[noreturn]] void Trace(pid_t process, int ready) {
  constexpr long kOptions = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK |
                            PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE;
  Check(::ptrace(PTRACE_SEIZE, process, nullptr, kOptions), "ptrace");
  // Closes all fds, because no other process may hold one of the daemon's.
  Check(::dup2(ready, STDIN_FILENO), "dup2");
  Check(::syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0), "close_range");
  Check(::write(STDIN_FILENO, "1", 1), "write");
  ::close(STDIN_FILENO);
  for (;;) {
    int status = 0;
    // __WALL, to wait for threads, too (wait(2)).
    const pid_t stopped = ::waitpid(-1, &status, __WALL);
    if (stopped < 0 && errno != EINTR) {
      ::_exit(0);
    }
    if (stopped > 0 && WIFSTOPPED(status)) {
      GoOn(stopped, status);
    }
  }
}

// Forks twice, so that the tracer is no child of the command, which may wait
// for its own children.
void StartTracer() {
  const pid_t self = ::getpid();
  std::array<int, 2> ready{};
  Check(::pipe(ready.data()), "pipe");
  // Lets the tracer trace this process where only parents may trace (Yama).
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  const pid_t between = ::fork();
  Check(between, "fork");
  if (between == 0) {
    if (::fork() == 0) {
      Trace(self, ready[1]);
    }
    ::_exit(0);
  }
  ::waitpid(between, nullptr, 0);
  ::close(ready[1]);
  char answer = 0;
  if (::read(ready[0], &answer, 1) != 1) {
    errno = EPERM;
    Fail("starting the tracer");
  }
  ::close(ready[0]);
}

}  // namespace
}  // namespace mountd::bench

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: mountd-bench-native PRELOAD COMMAND [ARGUMENT...]\n",
               stderr);
    return 2;
  }
  mountd::bench::StartTracer();
  mountd::bench::StopAtCarriers();
  ::setenv("LD_PRELOAD", argv[1], 1);
  ::execvp(argv[2], argv + 2);
  mountd::bench::Fail(argv[2]);
}
