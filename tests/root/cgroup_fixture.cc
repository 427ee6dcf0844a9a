// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/root/cgroup_fixture.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>

namespace mountd::testing {
namespace {

constexpr char kRoot[] = "/sys/fs/cgroup";

}  // namespace

void CgroupFixture::SetUp() {
  ExecutorFixture::SetUp();
  if (IsSkipped() || HasFatalFailure()) {
    return;
  }
  while (::umount2(kRoot, MNT_DETACH) == 0) {
  }
  if (::mount("cgroup2", kRoot, "cgroup2", 0, nullptr) != 0) {
    GTEST_SKIP() << "cannot mount cgroups of version 2: "
                 << std::strerror(errno);
  }
  top_ = "/mountd-test-" + std::to_string(::getpid());
  if (::mkdir((kRoot + top_).c_str(), 0755) != 0) {
    GTEST_SKIP() << "cannot make a cgroup: " << std::strerror(errno);
  }
  cgroups_.push_back("");
  RuleConfig rule;
  rule.cgroups = {top_};
  config_.rules.push_back(rule);
}

void CgroupFixture::TearDown() {
  for (const auto& child : children_) {
    End(*child);
  }
  for (auto name = cgroups_.rbegin(); name != cgroups_.rend(); ++name) {
    const std::string path = kRoot + top_ + "/" + *name;
    // A process that has just ended may stay in the cgroup for a moment.
    for (int i = 0; i < 1000 && ::rmdir(path.c_str()) != 0; ++i) {
      ::usleep(1000);
    }
    EXPECT_FALSE(std::filesystem::exists(path)) << path;
  }
  ExecutorFixture::TearDown();
}

std::uint64_t CgroupFixture::MakeCgroup(const std::string& name) {
  const std::string path = kRoot + top_ + "/" + name;
  EXPECT_EQ(::mkdir(path.c_str(), 0755), 0) << path;
  cgroups_.push_back(name);
  return IdOf(name);
}

std::uint64_t CgroupFixture::IdOf(const std::string& name) const {
  struct stat st = {};
  EXPECT_EQ(::stat((kRoot + top_ + "/" + name).c_str(), &st), 0) << name;
  return st.st_ino;
}

Child& CgroupFixture::Spawn(const std::string& name,
                            const std::function<bool()>& body, unsigned flags) {
  return Fork(kRoot + top_ + "/" + name + "/cgroup.procs", body, flags);
}

Child& CgroupFixture::SpawnOutside(const std::function<bool()>& body,
                                   unsigned flags) {
  return Fork("", body, flags);
}

Child& CgroupFixture::Fork(const std::string& procs,
                           const std::function<bool()>& body, unsigned flags) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd ready(ends[0]);
  UniqueFd done(ends[1]);
  auto& child = *children_.emplace_back(std::make_unique<Child>());
  // The raw call acts as fork(2), because the library's fork takes no flags.
  child.pid = static_cast<pid_t>(
      ::syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, 0));
  if (child.pid == 0) {
    const UniqueFd join(
        procs.empty() ? -1 : ::open(procs.c_str(), O_WRONLY | O_CLOEXEC));
    const bool joined = procs.empty() || ::write(join.get(), "0", 1) == 1;
    const char outcome = joined && body() ? 'y' : 'n';
    (void)!::write(done.get(), &outcome, 1);
    for (;;) {
      ::pause();
    }
  }
  done.reset();
  char outcome = 0;
  EXPECT_EQ(::read(ready.get(), &outcome, 1), 1);
  EXPECT_EQ(outcome, 'y') << "the child could not do it";
  child.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, child.pid, 0U)));
  EXPECT_TRUE(child.pidfd.valid());
  return child;
}

void CgroupFixture::End(Child& child) {
  if (child.pid > 0) {
    ::kill(child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, 0);
    child.pid = -1;
  }
}

}  // namespace mountd::testing
