// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <utility>

namespace mountd {
namespace {

UniqueFd OpenNull() {
  return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFdTest, ClosesWhatItOwns) {
  int number = -1;
  {
    const UniqueFd fd = OpenNull();
    number = fd.get();
    ASSERT_TRUE(IsOpen(number));
  }
  EXPECT_FALSE(IsOpen(number));
}

TEST(UniqueFdTest, MovingLeavesNothingBehind) {
  UniqueFd first = OpenNull();
  const int number = first.get();
  UniqueFd second = std::move(first);
  EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): the contract
  EXPECT_EQ(second.get(), number);
  EXPECT_TRUE(IsOpen(number));
}

TEST(UniqueFdTest, AssigningClosesTheOldOne) {
  UniqueFd fd = OpenNull();
  UniqueFd other = OpenNull();
  const int old = fd.get();
  const int fresh = other.get();
  fd = std::move(other);
  EXPECT_FALSE(IsOpen(old));
  EXPECT_TRUE(IsOpen(fresh));
}

TEST(UniqueFdTest, AssigningToItselfKeepsIt) {
  UniqueFd fd = OpenNull();
  UniqueFd& same = fd;
  const int number = fd.get();
  fd = std::move(same);
  EXPECT_EQ(fd.get(), number);
  EXPECT_TRUE(IsOpen(number));
}

TEST(UniqueFdTest, ReleaseGivesItAway) {
  UniqueFd fd = OpenNull();
  const int number = fd.release();
  EXPECT_FALSE(fd.valid());
  fd.reset();
  EXPECT_TRUE(IsOpen(number));
  ::close(number);
}

TEST(UniqueFdTest, AnEmptyOneClosesNothing) {
  UniqueFd fd;
  EXPECT_FALSE(fd.valid());
  fd.reset();
  EXPECT_EQ(fd.release(), -1);
}

}  // namespace
}  // namespace mountd
