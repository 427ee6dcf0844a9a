// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/root/attacker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>

namespace mountd::testing {

Attacker::Attacker(const std::function<void()>& step) {
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    if (::setgid(kAttacker) != 0 || ::setuid(kAttacker) != 0 ||
        ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
      ::_exit(1);
    }
    while (::getppid() == parent) {
      step();
    }
    ::_exit(0);
  }
}

Attacker::~Attacker() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Exchange(const std::string& one, const std::string& other) {
  ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
}

void Give(const std::string& path) {
  ASSERT_EQ(::lchown(path.c_str(), kAttacker, kAttacker), 0) << path;
}

bool Within(const std::function<bool()>& attack) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < deadline) {
    if (attack()) {
      return true;
    }
  }
  return false;
}

int AsRootOfOwnNamespaces(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(kAttacker) != 0 || ::setuid(kAttacker) != 0 ||
        ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
      ::_exit(126);
    }
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace mountd::testing
