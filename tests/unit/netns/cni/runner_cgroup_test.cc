// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The cgroup of plugins, in the machine's own hierarchy, because there is only
// one. The test moves into a cgroup of its own, and removes it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "netns/cni/cgroup.h"
#include "tests/support/eventually.h"
#include "tests/unit/netns/cni/runner_fixture.h"

namespace mountd::cni {
namespace {

namespace fs = std::filesystem;

using mountd::testing::Eventually;
using Names = std::vector<std::string>;

constexpr char kRoot[] = "/sys/fs/cgroup";

bool MoveTo(const std::string& cgroup) {
  const UniqueFd procs(
      ::open((kRoot + cgroup + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  return ::write(procs.get(), "0", 1) == 1;
}

std::string OwnCgroup() {
  std::ifstream cgroups("/proc/self/cgroup");
  for (std::string line; std::getline(cgroups, line);) {
    if (line.starts_with("0::")) {
      return line.substr(3);
    }
  }
  return "";
}

// Starts a process in a session of its own, with its parent gone. A search for
// descendants does not find it.
int StartDaemon(const std::function<void()>& enter) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd read(ends[0]);
  UniqueFd write(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    enter();
    ::setsid();
    const pid_t daemon = ::fork();
    if (daemon != 0) {
      ::_exit(::write(write.get(), &daemon, sizeof(daemon)) < 0 ? 1 : 0);
    }
    for (;;) {
      ::pause();
    }
  }
  write.reset();
  ::waitpid(child, nullptr, 0);
  pid_t daemon = 0;
  EXPECT_EQ(::read(read.get(), &daemon, sizeof(daemon)),
            static_cast<ssize_t>(sizeof(daemon)));
  return daemon;
}

class CniCgroup : public RunnerTest {
 protected:
  void SetUp() override {
    RunnerTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    while (::umount2(kRoot, MNT_DETACH) == 0) {
    }
    if (::mount("cgroup2", kRoot, "cgroup2", 0, nullptr) != 0) {
      GTEST_SKIP() << "cannot mount cgroups of version 2: "
                   << std::strerror(errno);
    }
    home_ = OwnCgroup();
    own_ = "/mountd-cni-test-" + std::to_string(::getpid());
    if (::mkdir((kRoot + own_).c_str(), 0755) != 0 || !MoveTo(own_)) {
      GTEST_SKIP() << "cannot make a cgroup and enter it: "
                   << std::strerror(errno);
    }
    WriteNetwork("1.conflist",
                 Network("net", {Plugin("first"), Plugin("second")}));
  }

  void TearDown() override {
    if (!own_.empty()) {
      EXPECT_TRUE(MoveTo(home_));
      for (const std::string& name : Cgroups()) {
        EXPECT_EQ(name, "") << "is left";
        ::rmdir((kRoot + own_ + "/" + name).c_str());
      }
      EXPECT_TRUE(Eventually([&] {
        return ::rmdir((kRoot + own_).c_str()) == 0 || errno == ENOENT;
      })) << std::strerror(errno);
    }
    RunnerTest::TearDown();
  }

  void Delegate(const char* mark = "user.delegate", const char* value = "1") {
    ASSERT_EQ(
        ::setxattr((kRoot + own_).c_str(), mark, value, std::strlen(value), 0),
        0)
        << std::strerror(errno);
  }

  std::string PathOf(const std::string& name) const {
    return kRoot + own_ + "/" + name;
  }

  // Returns the cgroups beneath the test's own.
  Names Cgroups() const {
    Names names;
    for (const auto& entry : fs::directory_iterator(kRoot + own_)) {
      if (entry.is_directory()) {
        names.push_back(entry.path().filename().string());
      }
    }
    return names;
  }

  // Returns the cgroup of a plugin that the current runner has started.
  std::string PluginsCgroup() const {
    return own_ + "/cni-" + std::to_string(RunnerPid());
  }

  void ExpectAsWithoutOne() const {
    EXPECT_EQ(Run("add", RequestFor("web"))["ok"], true);
    for (const Json& call : Calls()) {
      EXPECT_EQ(call["cgroup"], own_);
    }
    EXPECT_EQ(Cgroups(), Names());
  }

  // Runs an ADD whose plugin leaves a daemon, and kills guard and worker at
  // once, so that neither can kill the daemon. Returns the daemon's pid.
  int KillBothInTheMiddle() const {
    WriteNetwork("1.conflist",
                 Network("net", {Plugin("first", {{"ADD", {"hang"}}})}));
    test::RunningProgram runner(Command("add", RequestFor("web")));
    EXPECT_TRUE(Eventually([] { return Daemons().size() == 1; }));
    const int guard = RunnerPid();
    const int worker = ChildOf(guard);
    for (const int signal : {SIGSTOP, SIGKILL}) {
      for (const int victim : {guard, worker}) {
        EXPECT_EQ(::kill(victim, signal), 0);
      }
    }
    EXPECT_EQ(runner.Wait(), -SIGKILL);
    return Daemons().at(0);
  }

 private:
  std::string home_;
  std::string own_;
};

TEST_F(CniCgroup, NothingIsMadeWhereItIsNotDelegated) { ExpectAsWithoutOne(); }

TEST_F(CniCgroup, AMarkThatSaysNoIsNone) {
  Delegate("user.delegate", "0");
  Delegate("trusted.delegate", "10");
  ExpectAsWithoutOne();
}

TEST_F(CniCgroup, PluginsOfARunHaveOneOfTheirOwn) {
  for (const char* mark : {"user.delegate", "trusted.delegate"}) {
    Delegate(mark);
    WriteNetwork(
        "1.conflist",
        Network("net", {Plugin("first"),
                        Plugin("second", {{"ADD", {"wait /run/go"}}})}));
    test::RunningProgram runner(Command("add", RequestFor("web")));
    ASSERT_TRUE(Eventually([] { return Calls().size() == 2; }));
    const std::string expected = PluginsCgroup();
    for (const Json& call : Calls()) {
      EXPECT_EQ(call["cgroup"], expected);
    }
    WriteFile("/run/go", "");
    EXPECT_EQ(Json::parse(runner.ReadLine(), nullptr, false)["ok"], true);
    EXPECT_EQ(runner.Wait(), 0);
    EXPECT_EQ(Cgroups(), Names());
    EXPECT_EQ(Run("del", RequestFor("web"))["ok"], true);
    fs::remove("/run/go");
    ForgetCalls();
  }
}

TEST_F(CniCgroup, ItGoesWithWhatAPluginLeft) {
  Delegate();
  WriteNetwork("1.conflist",
               Network("net", {Plugin("first", {{"ADD", {"daemon"}}})}));
  EXPECT_EQ(Run("add", RequestFor("web"))["ok"], true);
  EXPECT_FALSE(IsAlive(Daemons().at(0)));
  EXPECT_EQ(Cgroups(), Names());
}

TEST_F(CniCgroup, ItGoesWithAGuardThatIsKilled) {
  Delegate();
  WriteNetwork("1.conflist",
               Network("net", {Plugin("first", {{"ADD", {"hang"}}})}));
  test::RunningProgram runner(Command("add", RequestFor("web")));
  ASSERT_TRUE(Eventually([] { return Daemons().size() == 1; }));
  runner.Signal(SIGKILL);
  EXPECT_TRUE(Eventually([&] { return Cgroups().empty(); }));
}

TEST_F(CniCgroup, ItGoesWithAWorkerThatIsKilled) {
  Delegate();
  WriteNetwork("1.conflist",
               Network("net", {Plugin("first", {{"ADD", {"hang"}}})}));
  test::RunningProgram runner(Command("add", RequestFor("web")));
  ASSERT_TRUE(Eventually([] { return Daemons().size() == 1; }));
  ::kill(ChildOf(RunnerPid()), SIGKILL);
  EXPECT_NE(runner.Wait(), 0);
  EXPECT_EQ(Cgroups(), Names());
}

TEST_F(CniCgroup, WhatNobodyCouldRemoveTheNextRunDoes) {
  Delegate();
  const int daemon = KillBothInTheMiddle();
  EXPECT_TRUE(IsAlive(daemon));
  EXPECT_EQ(Cgroups().size(), 1U);
  // The cgroup is not empty before the kernel is done with the worker's end.
  EXPECT_TRUE(Eventually([&] {
    EXPECT_EQ(Run("del", RequestFor("web"))["ok"], true);
    return Cgroups().empty();
  }));
  EXPECT_TRUE(Eventually([&] { return !IsAlive(daemon); }));
}

TEST_F(CniCgroup, ARunThatGoesOnKeepsItsOwn) {
  Delegate();
  WriteNetwork("1.conflist",
               Network("net", {Plugin("first", {{"ADD", {"wait /run/go"}}})}));
  test::RunningProgram one(Command("add", RequestFor("web")));
  ASSERT_TRUE(Eventually([] { return Calls().size() == 1; }));
  const Names before = Cgroups();
  EXPECT_EQ(before.size(), 1U);
  EXPECT_EQ(Run("list", nullptr)["ok"], true);
  EXPECT_EQ(Cgroups(), before);
  WriteFile("/run/go", "");
  EXPECT_EQ(one.Wait(), 0);
  EXPECT_EQ(Cgroups(), Names());
}

TEST_F(CniCgroup, OfAPidThatIsAnothersByNowItIsRemovedToo) {
  Delegate();
  const std::string name = "cni-" + std::to_string(::getpid());
  ASSERT_EQ(::mkdir(PathOf(name).c_str(), 0755), 0);
  EXPECT_EQ(Run("list", nullptr)["ok"], true);
  EXPECT_EQ(Cgroups(), Names());
}

TEST_F(CniCgroup, WhatIsNoRunnersStays) {
  Delegate();
  for (const char* name : {"cni-", "cni-x", "cni-1x", "csi-1"}) {
    ASSERT_EQ(::mkdir(PathOf(name).c_str(), 0755), 0);
  }
  EXPECT_EQ(Run("list", nullptr)["ok"], true);
  EXPECT_EQ(Cgroups().size(), 4U);
  for (const char* name : {"cni-", "cni-x", "cni-1x", "csi-1"}) {
    EXPECT_EQ(::rmdir(PathOf(name).c_str()), 0);
  }
}

TEST_F(CniCgroup, ARunGoesOnWhereNoneCanBeMade) {
  Delegate();
  WriteFile(PathOf("cgroup.max.descendants"), "0");
  ExpectAsWithoutOne();
}

TEST_F(CniCgroup, ItsEndIsThatOfWhatNobodyDescendsFrom) {
  Delegate();
  const PluginCgroup cgroup = PluginCgroup::Make();
  ASSERT_TRUE(cgroup.exists());
  const int daemon = StartDaemon([&] { cgroup.Enter(); });
  EXPECT_TRUE(IsAlive(daemon));
  cgroup.End();
  EXPECT_EQ(Cgroups(), Names());
  EXPECT_TRUE(Eventually([&] { return !IsAlive(daemon); }));
  cgroup.End();
}

TEST_F(CniCgroup, WithoutCgroupKillItsProcessesAreKilledOneByOne) {
  Delegate();
  const PluginCgroup cgroup = PluginCgroup::Make();
  ASSERT_TRUE(cgroup.exists());
  const int one = StartDaemon([&] { cgroup.Enter(); });
  const int two = StartDaemon([&] { cgroup.Enter(); });
  const std::string file = PathOf(Cgroups().at(0)) + "/cgroup.kill";
  ASSERT_EQ(::mount("/run/networks/1.conflist", file.c_str(), nullptr, MS_BIND,
                    nullptr),
            0);
  ASSERT_EQ(::mount(nullptr, file.c_str(), nullptr,
                    MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr),
            0);
  cgroup.Kill();
  EXPECT_TRUE(Eventually([&] { return !IsAlive(one) && !IsAlive(two); }));
  cgroup.End();
  EXPECT_EQ(Cgroups(), Names());
}

}  // namespace
}  // namespace mountd::cni
