// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/root/unshared.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace mountd::testing {

Unshared::Unshared(const std::function<bool()>& unshare) {
  std::array<int, 2> ready{};
  EXPECT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
  pid_ = ::fork();
  if (pid_ == 0) {
    const char said = unshare() ? 'x' : '-';
    // After the change of user, which clears it.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)!::write(ready[1], &said, 1);
    for (;;) {
      ::pause();
    }
  }
  ::close(ready[1]);
  char byte = '-';
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  valid_ = byte == 'x';
  ::close(ready[0]);
}

Unshared::~Unshared() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

UniqueFd UsersNetns(uid_t uid) {
  const Unshared process([uid] {
    return ::setresgid(uid, uid, uid) == 0 && ::setresuid(uid, uid, uid) == 0 &&
           ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
  });
  return UniqueFd(process.valid() ? ::open((process.proc() + "/ns/net").c_str(),
                                           O_RDONLY | O_CLOEXEC)
                                  : -1);
}

}  // namespace mountd::testing
