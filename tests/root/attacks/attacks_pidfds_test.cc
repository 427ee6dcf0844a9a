// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Attacks by way of processes that are not the task, as in attacks_test.cc.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "tests/root/attacker.h"
#include "tests/root/cgroup_fixture.h"
#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Reply;

// The constant is in linux/pidfd.h since 6.9, which Debian 12 lacks.
constexpr unsigned kPidfdThread = O_EXCL;

class PidfdAttacks : public CgroupFixture {
 protected:
  void SetUp() override {
    CgroupFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    cgroup_ = MakeCgroup("web");
    MakeDirectories(kPlace);
    PrepareBase();
  }
  std::string Verify(const UniqueFd& pidfd) {
    return With(pidfd, PlanKind::kVerifyTask);
  }
  std::string Inspect(const UniqueFd& pidfd) {
    return With(pidfd, PlanKind::kInspectTask);
  }

 private:
  std::string With(const UniqueFd& pidfd, PlanKind kind) {
    fds_.clear();
    fds_.emplace_back(::dup(pidfd.get()));
    const Reply reply = Call(kind, [&](PlanBody* body) {
      body->verify_task = exec::VerifyTaskPlan{};
      body->verify_task.cgroup = kind == PlanKind::kVerifyTask ? cgroup_ : 0;
    });
    fds_.clear();
    return CodeOf(reply);
  }

  std::uint64_t cgroup_ = 0;
};

// Looks for the mount by the task's pid, which is all that a naive daemon has.
bool NaiveSees(pid_t task, const std::string& mount_point) {
  std::ifstream mounts("/proc/" + std::to_string(task) + "/mountinfo");
  std::stringstream text;
  text << mounts.rdbuf();
  return text.str().find(" " + mount_point + " ") != std::string::npos;
}

bool MountAtPlace() {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("t", kPlace, "tmpfs", 0, nullptr) == 0;
}

TEST_F(PidfdAttacks, AnothersProcessIsNotLookedAt) {
  MakeCgroup("others");
  const Child& other = Spawn("others", MountAtPlace);
  EXPECT_EQ(Verify(other.pidfd), "FailedPrecondition");
  EXPECT_NAIVE(NaiveSees(other.pid, kPlace));
  const Child& outside = SpawnOutside(MountAtPlace);
  EXPECT_EQ(Verify(outside.pidfd), "PermissionDenied");
  EXPECT_EQ(Inspect(outside.pidfd), "PermissionDenied");
  EXPECT_NAIVE(NaiveSees(outside.pid, kPlace));
  // The process's user does not matter, because the cgroup is the allocation's.
  const Child& own = Spawn("web", [] {
    return ::setgid(kAttacker) == 0 && ::setuid(kAttacker) == 0;
  });
  EXPECT_EQ(Verify(own.pidfd), "");
}

// Each fd leads to the task, so a naive daemon could enter the task by it.
TEST_F(PidfdAttacks, WhatIsOfATaskButNoPidfdIsNotTaken) {
  const Child& task = Spawn("web", MountAtPlace);
  const std::string proc = "/proc/" + std::to_string(task.pid);
  for (const char* of : {"/ns/mnt", "/ns/user", "/ns/pid", "/root", "/cwd"}) {
    SCOPED_TRACE(of);
    const UniqueFd fd(::open((proc + of).c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(fd.valid());
    EXPECT_EQ(Verify(fd), "InvalidArgument");
    EXPECT_EQ(Inspect(fd), "InvalidArgument");
  }
  const UniqueFd mounts(
      ::open((proc + "/ns/mnt").c_str(), O_RDONLY | O_CLOEXEC));
  const pid_t naive = ::fork();
  if (naive == 0) {
    ::_exit(::setns(mounts.get(), 0) == 0 && IsMountPoint(kPlace) ? 0 : 1);
  }
  int status = 1;
  ::waitpid(naive, &status, 0);
  EXPECT_NAIVE(status == 0);
}

TEST_F(PidfdAttacks, AProcessWithTheTasksOldNumberIsNotTheTask) {
  Child& task = Spawn("web", [] { return true; });
  const pid_t number = task.pid;
  ASSERT_EQ(Verify(task.pidfd), "");
  End(task);
  EXPECT_EQ(Verify(task.pidfd), "FailedPrecondition");
  const pid_t again = SpawnAs(number, MountAtPlace);
  ASSERT_EQ(again, number);
  EXPECT_EQ(Verify(task.pidfd), "FailedPrecondition");
  EXPECT_EQ(Inspect(task.pidfd), "FailedPrecondition");
  EXPECT_NAIVE(NaiveSees(number, kPlace));
  ::kill(again, SIGKILL);
  ::waitpid(again, nullptr, 0);
}

// A thread can have a mount namespace and a cgroup that its process does not
// have.
TEST_F(PidfdAttacks, AThreadIsNoTask) {
  const Child& task = Spawn("web", [] {
    std::thread([] {
      const bool done = MountAtPlace();
      std::ofstream("/run/thread") << (done ? ::gettid() : 0) << std::endl;
      for (;;) {
        ::pause();
      }
    }).detach();
    return Within([] {
      pid_t thread = 0;
      return static_cast<bool>(std::ifstream("/run/thread") >> thread);
    });
  });
  pid_t thread = 0;
  std::ifstream("/run/thread") >> thread;
  ASSERT_GT(thread, 0);
  const UniqueFd pidfd(
      static_cast<int>(::syscall(SYS_pidfd_open, thread, kPidfdThread)));
  if (!pidfd.valid()) {
    GTEST_SKIP() << "pidfds of threads need Linux 6.9";
  }
  EXPECT_EQ(Verify(task.pidfd), "");
  EXPECT_EQ(Verify(pidfd), "InvalidArgument");
  EXPECT_EQ(Inspect(pidfd), "InvalidArgument");
  EXPECT_NAIVE(NaiveSees(thread, kPlace));
  EXPECT_FALSE(NaiveSees(task.pid, kPlace));
}

}  // namespace
}  // namespace mountd::testing
