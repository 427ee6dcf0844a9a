// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "agent/driver/cgroups/cgroup_files.h"
#include "agent/driver/cgroups/cgroup_subtree.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_directory.h"

namespace mountd::driver {
namespace {

namespace fs = std::filesystem;

std::string Content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

// A directory with the files of a cgroup, which nobody acts on.
class DriverCgroupFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(path("agent"));
    fs::create_directory(path("web"));
    Write(path("cgroup.controllers"), "cpu memory pids\n");
    Write(path("cgroup.subtree_control"), "");
    Write(path("cgroup.procs"), "");
    Write(path("agent/cgroup.procs"), "");
  }
  std::string path(const std::string& file) const {
    return directory_.File(file);
  }
  Result<CgroupSubtree> Open() const { return CgroupSubtree::Open(path(".")); }
  Result<TaskCgroup> Web() const {
    MOUNTD_ASSIGN(const CgroupSubtree subtree, Open());
    return subtree.Make("web");
  }

 private:
  const TempDirectory directory_;
};

TEST_F(DriverCgroupFiles, AControllerThatIsNotThereIsLeftOut) {
  ASSERT_OK_AND_ASSIGN(const CgroupSubtree subtree, Open());
  EXPECT_EQ(subtree.controllers(),
            (std::set<std::string>{"cpu", "memory", "pids"}));
  EXPECT_EQ(subtree.left_out(),
            (std::vector<std::string>{"cpuset: not delegated"}));
  EXPECT_EQ(Content(path("cgroup.subtree_control")), "+pids");
}

TEST_F(DriverCgroupFiles, AnOrdinaryDirectoryIsNoCgroup) {
  const TempDirectory other;
  EXPECT_THAT(CgroupSubtree::Open(other.File(".")), IsErr(Code::kNotFound));
  EXPECT_THAT(CgroupSubtree::Open(other.File("none")), IsErr(Code::kNotFound));
}

// The files of this directory never change, so the processes seem to stay.
TEST_F(DriverCgroupFiles, ProcessesThatStayAreBusy) {
  Write(path("cgroup.procs"), "7\n8\n");
  EXPECT_THAT(Open(), IsErr(Code::kBusy));
  EXPECT_EQ(Content(path("agent/cgroup.procs")), "8");
}

TEST_F(DriverCgroupFiles, LimitsAreTheKernelsTexts) {
  for (const char* file :
       {"memory.max", "memory.swap.max", "memory.low", "memory.oom.group",
        "cpu.weight", "cpu.max", "pids.max", "cpuset.cpus"}) {
    Write(path("web/") + file, "old");
  }
  ASSERT_OK_AND_ASSIGN(const TaskCgroup web, Web());
  CgroupLimits limits;
  limits.memory_max = 1000;
  limits.memory_low = 500;
  limits.memory_oom_group = true;
  limits.cpu_weight = 20;
  limits.cpu_quota_us = 50000;
  limits.pids_max = 9;
  limits.cpuset_cpus = "0-1";
  ASSERT_OK_AND_ASSIGN(const auto left_out, web.SetLimits(limits));
  EXPECT_TRUE(left_out.empty());
  EXPECT_EQ(Content(path("web/memory.max")), "1000");
  EXPECT_EQ(Content(path("web/memory.swap.max")), "0");
  EXPECT_EQ(Content(path("web/memory.low")), "500");
  EXPECT_EQ(Content(path("web/memory.oom.group")), "1");
  EXPECT_EQ(Content(path("web/cpu.weight")), "20");
  EXPECT_EQ(Content(path("web/cpu.max")), "50000 100000");
  EXPECT_EQ(Content(path("web/pids.max")), "9");
  EXPECT_EQ(Content(path("web/cpuset.cpus")), "0-1");
  // A live update changes its own members alone.
  CgroupLimits update;
  update.memory_max = CgroupLimits::kNone;
  update.cpu_quota_us = CgroupLimits::kNone;
  ASSERT_THAT(web.SetLimits(update), IsOk());
  EXPECT_EQ(Content(path("web/memory.max")), "max");
  EXPECT_EQ(Content(path("web/memory.swap.max")), "0");
  EXPECT_EQ(Content(path("web/cpu.max")), "max 100000");
  EXPECT_EQ(Content(path("web/pids.max")), "9");
}

TEST_F(DriverCgroupFiles, ALimitWithoutItsFileIsLeftOut) {
  Write(path("web/memory.max"), "max");
  ASSERT_OK_AND_ASSIGN(const TaskCgroup web, Web());
  CgroupLimits limits;
  limits.memory_max = 1000;
  limits.pids_max = 9;
  ASSERT_OK_AND_ASSIGN(const auto left_out, web.SetLimits(limits));
  EXPECT_EQ(left_out,
            (std::vector<std::string>{"memory.swap.max", "pids.max"}));
  EXPECT_EQ(Content(path("web/memory.max")), "1000");
  EXPECT_FALSE(fs::exists(path("web/pids.max")));
}

TEST_F(DriverCgroupFiles, StatisticsAreReadByTheirNames) {
  Write(path("web/memory.current"), "4096\n");
  Write(path("web/memory.stat"), "anon 100\nfile 200\nanon_thp 7\n");
  Write(path("web/cpu.stat"),
        "usage_usec 30\nuser_usec 20\nsystem_usec 10\nthrottled_usec 5\n");
  Write(path("web/memory.events"), "low 0\noom 2\noom_kill 3\n");
  Write(path("web/cgroup.events"), "populated 0\nfrozen 0\n");
  ASSERT_OK_AND_ASSIGN(const TaskCgroup web, Web());
  ASSERT_OK_AND_ASSIGN(const CgroupStats stats, web.Stats());
  EXPECT_EQ(stats.memory_current, 4096U);
  EXPECT_EQ(stats.memory_anon, 100U);
  EXPECT_EQ(stats.memory_file, 200U);
  EXPECT_EQ(stats.cpu_usage_us, 30U);
  EXPECT_EQ(stats.cpu_throttled_us, 5U);
  EXPECT_EQ(stats.pids_current, std::nullopt);
  EXPECT_EQ(stats.memory_swap, std::nullopt);
  EXPECT_EQ(*web.OomKills(), 3U);
  EXPECT_FALSE(*web.IsPopulated());
}

TEST_F(DriverCgroupFiles, WithoutTheMemoryControllerNobodyCountsOoms) {
  ASSERT_OK_AND_ASSIGN(const TaskCgroup web, Web());
  EXPECT_THAT(web.OomKills(), IsErr(Code::kNotFound));
}

TEST_F(DriverCgroupFiles, ATaskHasNoOtherCgroup) {
  ASSERT_OK_AND_ASSIGN(const CgroupSubtree subtree, Open());
  fs::create_directory_symlink("agent", path("link"));
  for (const char* name : {"", ".", "..", "agent", "a/b", "../agent"}) {
    EXPECT_THAT(subtree.Make(name), IsErr(Code::kInvalidArgument)) << name;
    EXPECT_THAT(subtree.Remove(name, std::chrono::seconds(1)),
                IsErr(Code::kInvalidArgument))
        << name;
  }
  EXPECT_FALSE(subtree.Make("link"));
  EXPECT_THAT(subtree.Find("none"), IsErr(Code::kNotFound));
  EXPECT_THAT(subtree.Remove("none", std::chrono::seconds(1)), IsOk());
}

TEST_F(DriverCgroupFiles, AProcessThatDoesNotEndIsTold) {
  Write(path("web/cgroup.events"), "populated 1\n");
  Write(path("web/cgroup.kill"), "");
  ASSERT_OK_AND_ASSIGN(const CgroupSubtree subtree, Open());
  EXPECT_THAT(subtree.Remove("web", std::chrono::milliseconds(20)),
              IsErr(Code::kDeadlineExceeded));
  EXPECT_EQ(Content(path("web/cgroup.kill")), "1");
}

// The kernel's own cgroups, where the machine has version 2 and the test may
// make one.
class DriverCgroupKernel : public ::testing::Test {
 protected:
  void SetUp() override {
    constexpr long kCgroup2 = 0x63677270;  // CGROUP2_SUPER_MAGIC
    for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      struct statfs status {};
      if (::statfs(root, &status) == 0 && status.f_type == kCgroup2) {
        path_ = std::string(root) + "/mountd-driver-test-" +
                std::to_string(::getpid());
      }
    }
    if (path_.empty() || ::mkdir(path_.c_str(), 0755) != 0) {
      path_.clear();
      GTEST_SKIP() << "no cgroup v2 that this test may change";
    }
  }
  void TearDown() override {
    if (!path_.empty()) {
      ::rmdir((path_ + "/agent").c_str());
      EXPECT_EQ(::rmdir(path_.c_str()), 0);
    }
  }

  // Starts a process in a cgroup beneath the subtree.
  pid_t StartIn(const std::string& cgroup) const {
    const pid_t child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    Write(path_ + cgroup + "/cgroup.procs", std::to_string(child));
    return child;
  }

  std::string path_;
};

TEST_F(DriverCgroupKernel, ATaskIsKilledAndRemovedWithAllBeneath) {
  const pid_t own = StartIn("");
  ASSERT_OK_AND_ASSIGN(const CgroupSubtree subtree, CgroupSubtree::Open(path_));
  EXPECT_EQ(Content(path_ + "/agent/cgroup.procs"), std::to_string(own) + "\n");
  ASSERT_OK_AND_ASSIGN(const TaskCgroup web, subtree.Make("web"));
  EXPECT_FALSE(*web.IsPopulated());
  fs::create_directories(path_ + "/web/a/b");
  const pid_t first = StartIn("/web");
  const pid_t second = StartIn("/web/a/b");
  EXPECT_TRUE(*web.IsPopulated());
  ASSERT_OK_AND_ASSIGN(const CgroupStats stats, web.Stats());
  EXPECT_TRUE(stats.cpu_usage_us.has_value());
  EXPECT_THAT(subtree.Remove("web", std::chrono::seconds(10)), IsOk());
  EXPECT_FALSE(fs::exists(path_ + "/web"));
  for (const pid_t killed : {first, second}) {
    int status = 0;
    EXPECT_EQ(::waitpid(killed, &status, 0), killed);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
  EXPECT_THAT(CgroupSubtree::Open(path_), IsOk());
  EXPECT_EQ(::kill(own, SIGKILL), 0);
  EXPECT_EQ(::waitpid(own, nullptr, 0), own);
}

}  // namespace
}  // namespace mountd::driver
