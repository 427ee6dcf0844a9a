// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "tests/root/executor_fixture.h"

namespace mountd::testing {
namespace {

using exec::Reply;
using exec::Request;

// Returns the line of /proc/self/mountinfo for the last mount at `path`.
std::string LastMountAt(const std::string& path) {
  std::ifstream file("/proc/self/mountinfo");
  std::string found;
  for (std::string line; std::getline(file, line);) {
    if (line.find(" " + path + " ") != std::string::npos) {
      found = line;
    }
  }
  return found;
}

class Tmpfs : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (!IsSkipped()) {
      PrepareBase();
    }
  }
  Reply AttachTmpfs(std::uint32_t attributes = 0) {
    Request request = TmpfsRequest();
    request.body.attach.attributes = attributes;
    return Send(request);
  }
};

TEST_F(Tmpfs, IsAsAskedAndHoldsNoMoreThanThat) {
  ASSERT_EQ(ErrorOf(AttachTmpfs(exec::kNoExec)), "");
  struct stat root = {};
  ASSERT_EQ(::stat(kTarget, &root), 0);
  EXPECT_EQ(root.st_mode, S_IFDIR | 01750U);
  EXPECT_EQ(root.st_uid, 1234U);
  EXPECT_EQ(root.st_gid, 5678U);
  struct statfs fs = {};
  ASSERT_EQ(::statfs(kTarget, &fs), 0);
  EXPECT_EQ(fs.f_blocks, 65536U / 4096U);
  EXPECT_EQ(fs.f_files, 8U);
  struct statvfs mount = {};
  ASSERT_EQ(::statvfs(kTarget, &mount), 0);
  constexpr unsigned long kFlags = ST_NOSUID | ST_NODEV | ST_NOEXEC;
  EXPECT_EQ(mount.f_flag & kFlags, kFlags);
  const UniqueFd file(::open((std::string(kTarget) + "/file").c_str(),
                             O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  EXPECT_EQ(::posix_fallocate(file.get(), 0, 65536), 0);
  EXPECT_EQ(::posix_fallocate(file.get(), 0, 65537), ENOSPC);
}

TEST_F(Tmpfs, IsPrivateAndGoesWithItsMount) {
  const Inventory before = Inventory::Take();
  const Reply reply = AttachTmpfs();
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.mount.peer_group, 0U);
  EXPECT_EQ(reply.body.mount.master, 0U);
  EXPECT_EQ(LastMountAt(kTarget).find("shared:"), std::string::npos);
  WriteFile(std::string(kTarget) + "/secret", "secret");
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
  ASSERT_EQ(ErrorOf(AttachTmpfs()), "");
  EXPECT_FALSE(Exists(std::string(kTarget) + "/secret"));
}

TEST_F(Tmpfs, OneThatIsThereIsNeverTakenForTheSame) {
  ASSERT_EQ(ErrorOf(AttachTmpfs()), "");
  EXPECT_EQ(CodeOf(AttachTmpfs()), "AlreadyExists");
}

TEST_F(Tmpfs, IsNotSwappedWhereTheKernelCan) {
  Request request = TmpfsRequest();
  request.body.attach.source.tmpfs.no_swap = 1;
  const Reply reply = Send(request);
  if (CodeOf(reply) == "NotSupported") {
    GTEST_SKIP() << "the kernel has no noswap";
  }
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_NE(LastMountAt(kTarget).find("noswap"), std::string::npos);
}

TEST_F(Tmpfs, WithoutNoswapInTheKernelIsNotSupported) {
  Request request = TmpfsRequest();
  request.body.attach.source.tmpfs.no_swap = 1;
  kernel_.FailAt(0, 0);
  ASSERT_EQ(ErrorOf(AttachTmpfs()), "");
  // The executor sets the flag right before it makes the file system.
  const auto made = std::find(kernel_.calls().begin(), kernel_.calls().end(),
                              "CreateFilesystem");
  ASSERT_NE(made, kernel_.calls().end());
  const auto at = static_cast<std::size_t>(made - kernel_.calls().begin()) + 1;
  request.body.attach.target = exec::Target("web", "app", "other");
  const Inventory before = Inventory::Take();
  kernel_.FailAt(at, EINVAL);
  EXPECT_EQ(CodeOf(Send(request)), "NotSupported");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
}

TEST_F(Tmpfs, AboveRootsLimitIsRefused) {
  config_.limits.tmpfs_bytes = 65535;
  const Inventory before = Inventory::Take();
  EXPECT_EQ(CodeOf(AttachTmpfs()), "InvalidArgument");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
}

}  // namespace
}  // namespace mountd::testing
