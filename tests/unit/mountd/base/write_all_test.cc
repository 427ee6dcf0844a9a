// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/write_all.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>

#include "mountd/base/unique_fd.h"

namespace mountd::test {
namespace {

TEST(WriteAll, WaitsForASlowReaderOfAnFdThatDoesNotBlock) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  ASSERT_EQ(::fcntl(to.get(), F_SETFL, O_NONBLOCK), 0);
  std::string got;
  std::thread reader([&] {
    (void)::poll(nullptr, 0, 50);
    std::array<char, 4096> part{};
    for (ssize_t size = 0;
         (size = ::read(from.get(), part.data(), part.size())) > 0;) {
      got.append(part.data(), static_cast<std::size_t>(size));
    }
  });
  const std::string text(std::size_t{1} << 20U, 'x');
  EXPECT_TRUE(WriteAll(to.get(), text, "a pipe"));
  to.reset();
  reader.join();
  EXPECT_EQ(got, text);
}

}  // namespace
}  // namespace mountd::test
