// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/mountd-csi/plugin_reads.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <string>

#include "mountd/base/fd_message.h"
#include "mountd/base/unique_fd.h"
#include "tests/support/naive.h"

namespace mountd::csi {
namespace {

// Holds a plugin's end of a connection, and mountd-csi's.
class PluginReads : public ::testing::Test {
 protected:
  PluginReads() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()),
              0);
    plugin_.reset(ends[0]);
    own_.reset(ends[1]);
  }
  void SendBytes(const std::string& text) {
    EXPECT_EQ(::send(plugin_.get(), text.data(), text.size(), 0),
              static_cast<ssize_t>(text.size()));
  }
  // Sends the writing end of a pipe with a byte. The returned reading end is at
  // its end once no process has the writing end.
  UniqueFd SendFd() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const UniqueFd writing(ends[1]);
    const int number = writing.get();
    const std::array<std::byte, 1> byte{};
    EXPECT_TRUE(SendWithFds(plugin_.get(), byte, std::span(&number, 1)));
    return UniqueFd(ends[0]);
  }
  static bool IsHeld(const UniqueFd& reading) {
    pollfd entry{reading.get(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 0;
  }
  // Reads as gRPC does: in two parts, without room for fds.
  template <typename Reads>
  ssize_t Read(Reads reads) {
    std::array<iovec, 2> parts = {
        {{first_.data(), first_.size()}, {second_.data(), second_.size()}}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    return reads(own_.get(), &message, 0);
  }

  UniqueFd plugin_;
  UniqueFd own_;
  std::array<char, 4> first_{};
  std::array<char, 64> second_{};
};

TEST_F(PluginReads, BytesAreReadInAllParts) {
  SendBytes("0123456789");
  EXPECT_EQ(Read(ReadWithoutFds), 10);
  EXPECT_EQ(std::string(first_.data(), 4), "0123");
  EXPECT_EQ(std::string(second_.data(), 6), "456789");
  EXPECT_EQ(Read(ReadWithoutFds), -1);
  EXPECT_EQ(errno, EAGAIN);
  plugin_.reset();
  EXPECT_EQ(Read(ReadWithoutFds), 0);
}

// A plain read closes the fd that the plugin sent, and the close might wait for
// the plugin.
TEST_F(PluginReads, FdsAreNotClosedByTheRead) {
  const UniqueFd naive = SendFd();
  EXPECT_NAIVE(Read(::recvmsg) == 1 && !IsHeld(naive));

  SendBytes("before");
  const UniqueFd sent = SendFd();
  EXPECT_EQ(Read(ReadWithoutFds), -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_TRUE(IsHeld(sent));
  EXPECT_EQ(Read(ReadWithoutFds), -1);
  EXPECT_TRUE(IsHeld(sent));
  // The fd is closed with the connection.
  own_.reset();
  EXPECT_FALSE(IsHeld(sent));
}

}  // namespace
}  // namespace mountd::csi
