// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/unix_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <string>

#include "mountd/base/unique_fd.h"
#include "tests/support/temp_directory.h"
#include "tests/support/unix_socket.h"

namespace mountd {
namespace {

UniqueFd NewSocket() {
  return UniqueFd(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;

TEST(ConnectUnix, ReachesWhoListensThere) {
  const TempDirectory directory;
  const std::string path = directory.File("socket");
  const UniqueFd listening = test::ListenAt(path);
  const UniqueFd socket = NewSocket();
  EXPECT_EQ(ConnectUnix(socket.get(), path), 0);
  const UniqueFd accepted(::accept(listening.get(), nullptr, nullptr));
  EXPECT_TRUE(accepted.valid());
}

TEST(ConnectUnix, TakesTheLongestPathThereIsAndNoLonger) {
  const TempDirectory directory;
  std::string path = directory.File("");
  path.append(kLongest - path.size(), 's');
  const UniqueFd listening = test::ListenAt(path);
  EXPECT_EQ(ConnectUnix(NewSocket().get(), path), 0);
  EXPECT_EQ(ConnectUnix(NewSocket().get(), path + "s"), ENAMETOOLONG);
}

TEST(ConnectUnix, TellsWhyNot) {
  const TempDirectory directory;
  const std::string path = directory.File("socket");
  EXPECT_EQ(ConnectUnix(NewSocket().get(), path), ENOENT);
  test::ListenAt(path);  // the listener ends at once
  EXPECT_EQ(ConnectUnix(NewSocket().get(), path), ECONNREFUSED);
  EXPECT_EQ(ConnectUnix(-1, path), EBADF);
}

}  // namespace
}  // namespace mountd
