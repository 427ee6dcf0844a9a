// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/protocol/fork_into_cgroup.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "agent/driver/protocol/launch.h"
#include "mountd/base/unique_fd.h"
#include "tests/support/temp_directory.h"

namespace mountd::shim {
namespace {

constexpr int kInCgroup = 3;
constexpr int kMoves = 4;
constexpr int kCannotMove = 5;

// Says in its exit code how the child came into the cgroup.
int CodeOfChildIn(int cgroup) {
  const ForkedInto forked = ForkIntoCgroup(cgroup);
  if (forked.pid == 0) {
    ::_exit(forked.joined        ? kInCgroup
            : JoinCgroup(cgroup) ? kMoves
                                 : kCannotMove);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(forked.pid, &status, 0), forked.pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

UniqueFd Open(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

TEST(ForkIntoCgroup, WithoutACgroupTheChildStays) {
  EXPECT_EQ(CodeOfChildIn(-1), kInCgroup);
}

// The kernel refuses any other directory, as an old kernel refuses the flag.
TEST(ForkIntoCgroup, AChildThatTheKernelDoesNotPutThereMovesItself) {
  const TempDirectory directory;
  const std::string procs = directory.File("cgroup.procs");
  std::ofstream(procs) << std::flush;
  const UniqueFd cgroup =
      Open(std::filesystem::path(procs).parent_path().string());
  EXPECT_EQ(CodeOfChildIn(cgroup.get()), kMoves);
  std::ifstream file(procs);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "0");
}

TEST(ForkIntoCgroup, AChildThatCannotMoveLearnsIt) {
  const TempDirectory directory;
  const UniqueFd empty =
      Open(std::filesystem::path(directory.File("x")).parent_path().string());
  EXPECT_EQ(CodeOfChildIn(empty.get()), kCannotMove);
}

// A directory without cgroup.procs is no cgroup of version 2.
TEST(LaunchShim, NamesTheCgroupThatTheShimCannotJoin) {
  const TempDirectory directory;
  const std::string path =
      std::filesystem::path(directory.File("x")).parent_path().string();
  const UniqueFd cgroup = Open(path);
  Launch launch;
  launch.program = "/bin/true";
  launch.task_directory = cgroup.get();
  launch.shim_cgroup = cgroup.get();
  const auto refused = LaunchShim(std::move(launch));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().sys_errno, ENOENT);
  EXPECT_EQ(refused.error().op, "join the cgroup");
  EXPECT_EQ(refused.error().object, path);
  EXPECT_NE(refused.error().detail.find("Delegate=yes"), std::string::npos);
}

TEST(LaunchShim, AShimThatMovesItselfStarts) {
  const TempDirectory directory;
  const std::string procs = directory.File("cgroup.procs");
  std::ofstream(procs) << std::flush;
  const UniqueFd cgroup =
      Open(std::filesystem::path(procs).parent_path().string());
  Launch launch;
  launch.program = "/bin/true";
  launch.task_directory = cgroup.get();
  launch.shim_cgroup = cgroup.get();
  EXPECT_TRUE(LaunchShim(std::move(launch)));
  std::ifstream file(procs);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "0");
}

}  // namespace
}  // namespace mountd::shim
