// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/caller.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace mountd {
namespace {

Caller CallerAt(pid_t pid) {
  Caller caller;
  caller.pid = static_cast<std::uint32_t>(pid);
  caller.process = std::make_shared<const UniqueFd>(
      static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return caller;
}

std::string CodeOfPid(const Caller& caller) {
  const Result<std::uint32_t> pid = LivingPidOf(caller);
  return pid ? "Ok" : std::string(CodeName(pid.error().code));
}

// Once the process has ended, its pid may belong to another process.
TEST(CallersProcess, IsToldOnlyWhileItLives) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) {
      ::pause();
    }
  }
  const Caller caller = CallerAt(child);
  const Result<std::uint32_t> pid = LivingPidOf(caller);
  EXPECT_TRUE(pid && *pid == static_cast<std::uint32_t>(child));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(CodeOfPid(caller), "FailedPrecondition");
  EXPECT_EQ(CodeOfPid(CallerAt(child)), "FailedPrecondition");
}

TEST(CallersProcess, MayBeUnknown) {
  EXPECT_EQ(CodeOfPid(Caller{}), "FailedPrecondition");
  EXPECT_EQ(CodeOfPid(CallerAt(0)), "FailedPrecondition");
}

}  // namespace
}  // namespace mountd
