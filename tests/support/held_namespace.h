// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>

#include "mountd/base/unique_fd.h"

namespace mountd::testing {

// Owns a user namespace and a network namespace of an unprivileged user, as a
// task driver without privilege makes them. A process of that user holds them.
class HeldNamespace {
 public:
  explicit HeldNamespace(uid_t uid) {
    std::array<int, 2> ready{};
    if (::pipe2(ready.data(), O_CLOEXEC) != 0) {
      return;
    }
    pid_ = ::fork();
    if (pid_ == 0) {
      Hold(uid, ready[1]);
    }
    ::close(ready[1]);
    char byte = 0;
    if (::read(ready[0], &byte, 1) == 1) {
      fd_.reset(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
    }
    ::close(ready[0]);
  }
  ~HeldNamespace() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  HeldNamespace(const HeldNamespace&) = delete;
  HeldNamespace& operator=(const HeldNamespace&) = delete;

  int fd() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  std::string path() const {
    return "/proc/" + std::to_string(pid_) + "/ns/net";
  }

 private:
  [[noreturn]] static void Hold(uid_t uid, int ready) {
    if (::syscall(SYS_setgroups, 0, nullptr) != 0 ||
        ::syscall(SYS_setresgid, uid, uid, uid) != 0 ||
        ::syscall(SYS_setresuid, uid, uid, uid) != 0 ||
        ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 ||
        ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 ||
        ::write(ready, "x", 1) != 1) {
      ::_exit(1);
    }
    for (;;) {
      ::pause();
    }
  }

  pid_t pid_ = -1;
  UniqueFd fd_;
};

}  // namespace mountd::testing
