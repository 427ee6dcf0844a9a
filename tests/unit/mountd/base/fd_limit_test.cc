// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/fd_limit.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <vector>

#include "mountd/base/unique_fd.h"

namespace mountd {
namespace {

class FdLimit : public ::testing::Test {
 protected:
  FdLimit() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{64, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FdLimit() override { setrlimit(RLIMIT_NOFILE, &before_); }

  rlimit before_{};
};

TEST_F(FdLimit, IsShortOnceThreeQuartersAreOpen) {
  EXPECT_FALSE(IsShortOfFds());
  std::vector<UniqueFd> open;
  for (int i = 0; i < 52; ++i) {
    open.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  EXPECT_TRUE(IsShortOfFds());
  open.erase(open.begin());
  EXPECT_TRUE(IsShortOfFds()) << "although a low one is free";
  while (open.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC)).valid()) {
  }
  EXPECT_TRUE(IsShortOfFds()) << "with none left at all";
  open.clear();
  EXPECT_FALSE(IsShortOfFds());
}

TEST_F(FdLimit, IsRaisedToWhatMayBeHad) {
  RaiseFdLimit();
  rlimit now{};
  getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(now.rlim_cur, before_.rlim_max);
}

}  // namespace
}  // namespace mountd
