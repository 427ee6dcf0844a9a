// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>

namespace mountd::testing {

// Kills the nth child that this process forks, right before that system call.
// Kills the programs that the child starts at that call, too. The kernel does
// this by a filter that the child has from its first moment on. Only one object
// may live at a time.
class KilledChild {
 public:
  // In place of a system call: SIGKILL before the child does anything.
  static constexpr long kAtOnce = -1;

  explicit KilledChild(long call, int nth = 1) {
    [[maybe_unused]] static const int registered = ::pthread_atfork(
        nullptr, [] { --Left(); }, InChild);
    Armed() = call;
    Left() = nth;
  }
  ~KilledChild() { Left() = 0; }
  KilledChild(const KilledChild&) = delete;
  KilledChild& operator=(const KilledChild&) = delete;

 private:
  static std::atomic<long>& Armed() {
    static std::atomic<long> armed;
    return armed;
  }
  // Returns the number of children to come, including the one to be killed.
  static std::atomic<int>& Left() {
    static std::atomic<int> left;
    return left;
  }
  static void InChild() {
    if (Left().exchange(0) != 1) {
      return;
    }
    if (Armed() == kAtOnce) {
      ::kill(::getpid(), SIGKILL);
    } else if (!Filter(static_cast<unsigned>(Armed()))) {
      ::_exit(kNoFilter);
    }
  }
  // Loads the filter without no_new_privs where that is permitted, because with
  // it a set-user-ID helper would not get its user.
  static bool Filter(unsigned call) {
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program = {sizeof(code) / sizeof(code[0]), &code[0]};
    return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

  static constexpr int kNoFilter = 99;
};

}  // namespace mountd::testing
