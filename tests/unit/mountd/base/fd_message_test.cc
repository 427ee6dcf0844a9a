// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/fd_message.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <vector>

namespace mountd {
namespace {

class FdMessage : public ::testing::Test {
 protected:
  FdMessage() {
    std::array<int, 2> ends{};
    EXPECT_EQ(
        ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()),
        0);
    here_.reset(ends[0]);
    there_.reset(ends[1]);
  }

  Result<std::size_t, int> Send(std::vector<int> fds) {
    return SendWithFds(here_.get(), std::as_bytes(std::span("abc", 3)), fds);
  }
  Result<Received, int> Receive(std::size_t most_fds) {
    return ReceiveWithFds(there_.get(), std::span(buffer_), most_fds);
  }
  static bool IsSame(int a, int b) {
    struct stat one = {};
    struct stat other = {};
    return ::fstat(a, &one) == 0 && ::fstat(b, &other) == 0 &&
           one.st_dev == other.st_dev && one.st_ino == other.st_ino;
  }

  UniqueFd here_;
  UniqueFd there_;
  std::array<std::byte, 16> buffer_{};
};

TEST_F(FdMessage, BringsBytesAndFds) {
  ASSERT_EQ(Send({here_.get(), there_.get()}).value(), 3U);
  const auto received = Receive(2);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->size, 3U);
  EXPECT_EQ(static_cast<char>(buffer_[2]), 'c');
  ASSERT_EQ(received->fds.size(), 2U);
  EXPECT_FALSE(received->more_fds);
  EXPECT_TRUE(IsSame(received->fds[0].get(), here_.get()));
  EXPECT_TRUE(IsSame(received->fds[1].get(), there_.get()));
  EXPECT_EQ(::fcntl(received->fds[0].get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(FdMessage, SaysThatThereWereMoreFdsThanAllowed) {
  ASSERT_TRUE(Send({here_.get(), there_.get()}));
  EXPECT_TRUE(Receive(1)->more_fds);
  ASSERT_TRUE(Send({here_.get()}));
  const auto none = Receive(0);
  EXPECT_TRUE(none->more_fds);
  EXPECT_TRUE(none->fds.empty());
  ASSERT_TRUE(Send({}));
  EXPECT_FALSE(Receive(0)->more_fds);
}

TEST_F(FdMessage, TellsErrorsAndTheEnd) {
  const std::vector<int> too_many(kMaxMessageFds + 1);
  EXPECT_EQ(Send(too_many).error(), EINVAL);
  EXPECT_EQ(Send({-1}).error(), EBADF);
  here_.reset();
  EXPECT_EQ(Receive(1)->size, 0U);
  EXPECT_EQ(SendWithFds(there_.get(), {}, {}).error(), EPIPE);
}

}  // namespace
}  // namespace mountd
