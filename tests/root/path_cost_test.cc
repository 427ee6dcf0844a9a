// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <sstream>
#include <string>

#include "tests/root/executor_fixture.h"

// What attaching and detaching may not do, as it would cost more the more is
// mounted on the host: read mountinfo, or list mounts.
namespace mountd::testing {
namespace {

using exec::Propagation;
using exec::Reply;

constexpr int kOtherMounts = 500;

// Bytes that this process has read from files (proc(5), io). Asking counts
// itself, and always as much: the file is longer, but by how much varies.
std::uint64_t BytesRead() {
  std::array<char, 32> text{};
  const int fd = ::open("/proc/self/io", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(::read(fd, text.data(), text.size()), ssize_t{text.size()});
  ::close(fd);
  std::istringstream io(std::string(text.data(), text.size()));
  std::string name;
  std::uint64_t bytes = 0;
  io >> name >> bytes;
  EXPECT_EQ(name, "rchar:");
  return bytes;
}

class PathCost : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    PrepareBase();
    for (int i = 0; i < kOtherMounts; ++i) {
      const std::string path = "/run/others/" + std::to_string(i);
      MakeDirectories(path);
      ASSERT_EQ(
          ::mount("/run/host/real", path.c_str(), nullptr, MS_BIND, nullptr),
          0);
    }
  }

  // Of one Attach and its Detach, in this mode.
  void Count(Propagation mode) {
    kernel_.FailAt(0, 0);
    const int lists = kernel_.listings();
    const std::uint64_t before = BytesRead();
    const Reply reply = Attach("data", mode, "counted");
    ASSERT_EQ(ErrorOf(reply), "");
    ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id, "counted")), "");
    read_ = BytesRead() - before;
    lists_ = kernel_.listings() - lists;
  }

  std::uint64_t read_ = 0;
  int lists_ = 0;  // of old mounts, too: what is new is not beside the others
};

TEST_F(PathCost, NothingIsReadOrListed) {
  if (!HasUniqueMountIds()) {
    GTEST_SKIP() << "this kernel has no statmount (Linux 6.8)";
  }
  ASSERT_EQ(
      ::mount("/run/host/data", "/run/host/data", nullptr, MS_BIND, nullptr),
      0);
  ASSERT_EQ(::mount(nullptr, "/run/host/data", nullptr, MS_SHARED, nullptr), 0);
  const std::uint64_t once = BytesRead();
  const std::uint64_t counting = BytesRead() - once;
  for (const Propagation mode :
       {Propagation::kPrivate, Propagation::kHostToTask,
        Propagation::kBidirectional}) {
    Count(mode);
    EXPECT_EQ(read_, counting);
    EXPECT_EQ(lists_, 0);
  }
}

// Whether anything is mounted in a plain directory the kernel says only with
// all that is mounted beside it: asked once, for the first user.
TEST_F(PathCost, OfAPlainDirectoryOnlyTheFirstUserAsksWhatIsMountedInIt) {
  if (!HasUniqueMountIds()) {
    GTEST_SKIP() << "this kernel has no statmount (Linux 6.8)";
  }
  Count(Propagation::kHostToTask);
  EXPECT_EQ(lists_, 1);
  for (int i = 0; i < 3; ++i) {
    Count(Propagation::kHostToTask);
    EXPECT_EQ(lists_, 0);
  }
}

// The counters count.
TEST_F(PathCost, WhereStatmountIsMissingMountinfoIsRead) {
  kernel_.HideUniqueMountIds();
  dispatcher_.emplace(kernel_, config_);
  Count(Propagation::kPrivate);
  EXPECT_GT(read_, std::uint64_t{kOtherMounts} * 50);
}

}  // namespace
}  // namespace mountd::testing
