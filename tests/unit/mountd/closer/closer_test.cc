// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/closer/closer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <span>
#include <utility>
#include <vector>

namespace mountd::closer {
namespace {

std::array<UniqueFd, 2> Pair(int type) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// A pipe whose reading end reports the end once no process has the writing end.
struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    reading.reset(ends[0]);
    writing.reset(ends[1]);
  }
  bool IsHeld() const {
    pollfd entry{reading.get(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 0;
  }
  bool AwaitEnd() const {
    pollfd entry{reading.get(), POLLIN, 0};
    return ::poll(&entry, 1, 60'000) > 0;
  }
  UniqueFd reading;
  UniqueFd writing;
};

// Owns mountd-closer as a process of its own, and a process that stands for
// mountd.
class CloserProcess : public testing::Test {
 protected:
  void SetUp() override {
    std::array<UniqueFd, 2> connection = Pair(SOCK_SEQPACKET);
    mountd_ = ::fork();
    if (mountd_ == 0) {
      ::close_range(3, ~0U, 0);
      ::pause();
      ::_exit(0);
    }
    closer_ = ::fork();
    if (closer_ == 0) {
      const int end = connection[1].release();
      ::dup2(end, 3);
      ::close_range(4, ~0U, 0);
      Closer(UniqueFd(3)).Run();
      ::_exit(0);
    }
    connection_ = std::move(connection[0]);
    // The peer's sockets are made after both processes, so neither has a copy.
    std::array<UniqueFd, 2> peer = Pair(SOCK_STREAM);
    peer_ = std::move(peer[0]);
    socket_ = std::move(peer[1]);
    const UniqueFd mountd(
        static_cast<int>(::syscall(SYS_pidfd_open, mountd_, 0)));
    const UniqueFd listening(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    Tell(Kind::kBegin, 0, {mountd.get(), listening.get()});
  }
  void TearDown() override {
    ::kill(mountd_, SIGKILL);
    ::waitpid(mountd_, nullptr, 0);
    connection_.reset();
    int status = -1;
    ::waitpid(closer_, &status, 0);
    EXPECT_EQ(status, 0);
  }

  void Tell(Kind kind, std::uint64_t id, const std::vector<int>& fds = {}) {
    Request request;
    request.kind = kind;
    request.id = id;
    request.owner = 1000;
    EXPECT_EQ(
        Send(connection_.get(), std::as_bytes(std::span(&request, 1)), {}, fds),
        0);
  }
  // Asks for bytes of the socket that is held as 1, with ids of fds from 100
  // on.
  Incoming Ask(Reply* reply, std::span<std::byte> bytes) {
    Request request;
    request.kind = Kind::kReceive;
    request.id = 1;
    request.first = 100;
    request.size = static_cast<std::uint32_t>(bytes.size());
    EXPECT_EQ(
        Send(connection_.get(), std::as_bytes(std::span(&request, 1)), {}, {}),
        0);
    auto incoming =
        Receive(connection_.get(), std::as_writable_bytes(std::span(reply, 1)),
                bytes, 0);
    EXPECT_TRUE(incoming);
    return std::move(incoming).value();
  }
  void SendToPeer(const std::vector<int>& fds) {
    const std::array<std::byte, 3> bytes{};
    EXPECT_EQ(Send(peer_.get(), bytes, {}, fds), 0);
  }
  // Waits until mountd-closer has done all earlier requests.
  void AwaitTold() {
    Reply reply;
    std::array<std::byte, 1> bytes{};
    Ask(&reply, bytes);
  }

  pid_t mountd_ = -1;
  pid_t closer_ = -1;
  UniqueFd connection_;
  UniqueFd peer_;
  UniqueFd socket_;
};

TEST_F(CloserProcess, HoldsUntilItIsToldToDrop) {
  Pipe pipe;
  Tell(Kind::kHold, 7, {pipe.writing.get()});
  pipe.writing.reset();
  AwaitTold();
  EXPECT_TRUE(pipe.IsHeld());
  Tell(Kind::kDrop, 7);
  EXPECT_TRUE(pipe.AwaitEnd());
}

// The end of the connection does not yet mean that mountd has ended, so its
// files may still be open.
TEST_F(CloserProcess, HoldsUntilMountdHasEnded) {
  Pipe pipe;
  Tell(Kind::kHold, 7, {pipe.writing.get()});
  Tell(Kind::kHold, 8, {socket_.get()});
  pipe.writing.reset();
  socket_.reset();
  AwaitTold();
  connection_.reset();
  // mountd-closer has seen the end of the connection, and ends the peers'
  // connections at once.
  std::array<char, 1> byte{};
  EXPECT_EQ(::recv(peer_.get(), byte.data(), byte.size(), 0), 0);
  EXPECT_TRUE(pipe.IsHeld());
  ::kill(mountd_, SIGKILL);
  EXPECT_TRUE(pipe.AwaitEnd());
}

TEST_F(CloserProcess, IsRetiredWhileMountdGoesOn) {
  Pipe pipe;
  Tell(Kind::kHold, 7, {pipe.writing.get()});
  pipe.writing.reset();
  Tell(Kind::kRetire, 0);
  EXPECT_TRUE(pipe.AwaitEnd());
}

TEST_F(CloserProcess, PassesWhatMountdMayHaveAndHoldsItToo) {
  Tell(Kind::kHold, 1, {socket_.get()});
  Pipe pipe;
  const UniqueFd directory(::open("/", O_PATH | O_CLOEXEC));
  SendToPeer({pipe.writing.get(), directory.get()});
  pipe.writing.reset();
  Reply reply;
  std::array<std::byte, 64> bytes{};
  Incoming incoming = Ask(&reply, bytes);
  EXPECT_EQ(incoming.size, sizeof(reply) + 3);
  EXPECT_EQ(reply.error, 0);
  EXPECT_EQ(reply.fds, 2U);
  EXPECT_FALSE(reply.Passes(0));
  EXPECT_TRUE(reply.Passes(1));
  ASSERT_EQ(incoming.fds.size(), 1U);
  // mountd-closer has closed the other fd.
  EXPECT_TRUE(pipe.AwaitEnd());
}

TEST_F(CloserProcess, SaysWhenThereIsNothingToReceive) {
  Tell(Kind::kHold, 1, {socket_.get()});
  Reply reply;
  std::array<std::byte, 64> bytes{};
  Ask(&reply, bytes);
  EXPECT_EQ(reply.error, EAGAIN);
  peer_.reset();
  Ask(&reply, bytes);
  EXPECT_EQ(reply.error, 0);
  EXPECT_EQ(reply.size, 0U);
}

}  // namespace
}  // namespace mountd::closer
