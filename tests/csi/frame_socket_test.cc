// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/ipc/frame_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <random>

#include "tests/csi/process.h"

namespace mountd::csi::ipc {
namespace {

using AcceptFds = FrameSocket::AcceptFds;

std::pair<UniqueFd, UniqueFd> Sockets() {
  std::array<int, 2> fds{};
  EXPECT_EQ(0,
            ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()));
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Frame MakeFrame(std::size_t size, std::uint8_t byte) {
  Frame frame;
  frame.payload.assign(size, byte);
  return frame;
}

UniqueFd AnyFd() { return UniqueFd(::eventfd(0, EFD_CLOEXEC)); }

void SendRaw(const UniqueFd& socket, std::string_view bytes,
             const std::vector<int>& fds = {}) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(8 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  }
  ASSERT_EQ(static_cast<ssize_t>(bytes.size()),
            ::sendmsg(socket.get(), &message, MSG_NOSIGNAL));
}

// Returns the error of what a peer sends, or Code{}.
Code ReceiveError(std::string_view bytes, AcceptFds accept_fds,
                  const std::vector<int>& fds = {}) {
  auto [raw, socket] = Sockets();
  SendRaw(raw, bytes, fds);
  FrameSocket framed(std::move(socket), accept_fds);
  std::vector<Frame> frames;
  const Result<void> received = framed.Receive(&frames);
  return received ? Code{} : received.error().code;
}

TEST(FrameSocket, CarriesFramesOfEverySizeAndTheirFdsInOrder) {
  auto [a, b] = Sockets();
  FrameSocket sender(std::move(a), AcceptFds::kNo);
  FrameSocket receiver(std::move(b), AcceptFds::kYes);
  const std::vector<std::size_t> sizes{0, 1, 70000, 3, kMaxPayload, 8};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Frame frame = MakeFrame(sizes[i], static_cast<std::uint8_t>(i));
    if (i % 2 == 1) {
      frame.fd = AnyFd();
    }
    ASSERT_TRUE(sender.Queue(std::move(frame)));
  }
  std::vector<Frame> frames;
  while (frames.size() < sizes.size()) {
    ASSERT_TRUE(sender.Flush());
    ASSERT_TRUE(receiver.Receive(&frames));
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(MakeFrame(sizes[i], static_cast<std::uint8_t>(i)).payload,
              frames[i].payload);
    EXPECT_EQ(i % 2 == 1, frames[i].fd.valid()) << i;
  }
  EXPECT_FALSE(sender.HasQueued());
  EXPECT_EQ(0U, sender.queued_bytes());
}

TEST(FrameSocket, PutsAFrameTogetherFromSingleBytes) {
  auto [raw, socket] = Sockets();
  FrameSocket framed(std::move(socket), AcceptFds::kYes);
  const std::string bytes("\x02\0\0\0\0\0\0\0hi", 10);
  std::vector<Frame> frames;
  for (const char byte : bytes) {
    EXPECT_TRUE(frames.empty());
    SendRaw(raw, {&byte, 1});
    ASSERT_TRUE(framed.Receive(&frames));
  }
  ASSERT_EQ(1U, frames.size());
  EXPECT_EQ((std::vector<std::uint8_t>{'h', 'i'}), frames[0].payload);
}

TEST(FrameSocket, RefusesAPeerThatBreaksTheRules) {
  const UniqueFd fd = AnyFd();
  const std::string too_long("\x01\0\x40\0\0\0\0\0", 8);
  const std::string unknown_flag("\0\0\0\0\x02\0\0\0", 8);
  const std::string wants_fd("\0\0\0\0\x01\0\0\0", 8);
  const std::string plain("\0\0\0\0\0\0\0\0", 8);
  EXPECT_EQ(Code::kAborted, ReceiveError(too_long, AcceptFds::kYes));
  EXPECT_EQ(Code::kAborted, ReceiveError(unknown_flag, AcceptFds::kYes));
  EXPECT_EQ(Code::kAborted, ReceiveError(wants_fd, AcceptFds::kYes));
  EXPECT_EQ(Code::kAborted, ReceiveError(plain, AcceptFds::kYes, {fd.get()}));
  EXPECT_EQ(Code::kAborted,
            ReceiveError(wants_fd, AcceptFds::kYes, {fd.get(), fd.get()}));
  EXPECT_EQ(Code::kAborted, ReceiveError(wants_fd, AcceptFds::kNo, {fd.get()}));
}

TEST(FrameSocket, LeaksNoFdOfABrokenPeer) {
  const auto before = testing::OpenFds(::getpid());
  for (int i = 0; i < 8; ++i) {
    const UniqueFd fd = AnyFd();
    ReceiveError(std::string(8, '\0'), AcceptFds::kYes,
                 std::vector<int>(static_cast<std::size_t>(i), fd.get()));
  }
  EXPECT_EQ(before, testing::OpenFds(::getpid()));
}

TEST(FrameSocket, AHangUpIsUnavailableAfterTheLastFrame) {
  auto [raw, socket] = Sockets();
  FrameSocket framed(std::move(socket), AcceptFds::kYes);
  SendRaw(raw, std::string(8, '\0') + "\x05");
  raw.reset();
  std::vector<Frame> frames;
  EXPECT_TRUE(framed.Receive(&frames));
  EXPECT_EQ(1U, frames.size());
  const Result<void> received = framed.Receive(&frames);
  EXPECT_EQ(1U, frames.size());
  ASSERT_FALSE(received);
  EXPECT_EQ(Code::kUnavailable, received.error().code);
}

TEST(FrameSocket, QueuesNothingTooLarge) {
  auto [a, b] = Sockets();
  FrameSocket framed(std::move(a), AcceptFds::kNo);
  EXPECT_FALSE(framed.Queue(MakeFrame(kMaxPayload + 1, 0)));
}

TEST(FrameSocket, SurvivesGarbageOfAnySeed) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    auto [raw, socket] = Sockets();
    FrameSocket framed(std::move(socket), AcceptFds::kYes);
    std::string bytes(1 + random() % 200, '\0');
    for (char& byte : bytes) {
      byte = random() % 2 == 0 ? '\0' : static_cast<char>(random());
    }
    SendRaw(raw, bytes);
    raw.reset();
    std::vector<Frame> frames;
    // The second call fails at the latest, at the end of the stream.
    EXPECT_FALSE(framed.Receive(&frames) && framed.Receive(&frames)) << seed;
  }
}

}  // namespace
}  // namespace mountd::csi::ipc
