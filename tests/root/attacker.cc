// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/root/attacker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>

#include "mountd/base/unique_fd.h"

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

bool IsDirectory(const std::string& path) {
  struct stat st = {};
  return ::lstat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

bool IsMountPoint(const std::string& path) {
  struct statx stx = {};
  return ::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS,
                 &stx) == 0 &&
         (stx.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

bool NaiveBind(const std::string& source, const std::string& target) {
  return IsDirectory(source) && IsDirectory(target) &&
         ::mount(source.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) ==
             0;
}

int AsAttacker(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(::setgid(kAttacker) == 0 && ::setuid(kAttacker) == 0 ? body()
                                                                 : 126);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int AsRootOfOwnNamespaces(const std::function<int()>& body) {
  return AsAttacker([&] {
    return ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 ? body() : 126;
  });
}

pid_t SpawnAs(pid_t number, const std::function<bool()>& body) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd ready(ends[0]);
  UniqueFd done(ends[1]);
  struct clone_args arguments = {};
  arguments.exit_signal = SIGCHLD;
  arguments.set_tid = reinterpret_cast<std::uint64_t>(&number);
  arguments.set_tid_size = 1;
  const long pid = ::syscall(SYS_clone3, &arguments, sizeof(arguments));
  if (pid == 0) {
    (void)!::write(done.get(), body() ? "y" : "n", 1);
    for (;;) {
      ::pause();
    }
  }
  done.reset();
  char outcome = 0;
  EXPECT_EQ(::read(ready.get(), &outcome, 1), 1);
  EXPECT_EQ(outcome, 'y');
  return static_cast<pid_t>(pid);
}

}  // namespace mountd::testing
