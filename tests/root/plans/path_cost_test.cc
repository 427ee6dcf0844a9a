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

// Attaching and detaching must neither read mountinfo nor list mounts, because
// either would cost more with each mount on the host.
namespace mountd::testing {
namespace {

using exec::Propagation;
using exec::Reply;

constexpr int kOtherMounts = 500;

// Returns the bytes that this process has read from files (proc(5), io). The
// read here counts itself, so it always reads the same size: the file's length
// varies.
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

  // Counts for one Attach and its Detach in this mode.
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
  int lists_ = 0;  // counts only lists that include old mounts
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

// The kernel tells whether anything is mounted in a plain directory only by a
// list of all mounts beside it, so the executor asks once, for the first user.
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

// The counters do count.
TEST_F(PathCost, WhereStatmountIsMissingMountinfoIsRead) {
  kernel_.HideUniqueMountIds();
  dispatcher_.emplace(kernel_, config_);
  Count(Propagation::kPrivate);
  EXPECT_GT(read_, std::uint64_t{kOtherMounts} * 50);
}

}  // namespace
}  // namespace mountd::testing
