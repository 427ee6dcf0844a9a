// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/protocol/message_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>

#include "agent/driver/protocol/launch.h"
#include "agent/driver/protocol/shim_connection.h"
#include "tests/support/temp_directory.h"

namespace mountd::shim {
namespace {

class MessageSocket : public ::testing::Test {
 protected:
  MessageSocket() {
    std::array<int, 2> ends{};
    EXPECT_EQ(
        ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()),
        0);
    near_.reset(ends[0]);
    far_.reset(ends[1]);
  }

  UniqueFd near_;
  UniqueFd far_;
};

TEST_F(MessageSocket, CarriesAMessageWithFds) {
  const std::array<int, 2> fds = {near_.get(), far_.get()};
  ASSERT_TRUE(Send(near_.get(), Message(Kind::kStart), fds));
  const auto incoming = Receive(far_.get());
  ASSERT_TRUE(incoming) << incoming.error().Message();
  ASSERT_TRUE(incoming->message);
  EXPECT_EQ(incoming->message->kind(), Kind::kStart);
  ASSERT_EQ(incoming->fds.size(), 2U);
  EXPECT_EQ(::fcntl(incoming->fds[0].get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(MessageSocket, TellsTheEndFromAMessage) {
  near_.reset();
  const auto incoming = Receive(far_.get());
  ASSERT_TRUE(incoming) << incoming.error().Message();
  EXPECT_FALSE(incoming->message);
}

TEST_F(MessageSocket, RefusesWhatIsTooLarge) {
  const Message large =
      Message(Kind::kCreate).Add(Tag::kBundle, std::string(kMostBytes, 'x'));
  EXPECT_EQ(Send(near_.get(), large).error().code, Code::kInvalidArgument);
  // A hostile peer sends it all the same.
  ASSERT_GT(::send(near_.get(), large.bytes().data(), large.bytes().size(), 0),
            0);
  EXPECT_EQ(Receive(far_.get()).error().code, Code::kInvalidArgument);
}

TEST_F(MessageSocket, ReadsNoMessageOutOfOtherBytes) {
  ASSERT_EQ(::send(near_.get(), "hello, shim", 11, 0), 11);
  EXPECT_EQ(Receive(far_.get()).error().code, Code::kInvalidArgument);
}

TEST_F(MessageSocket, NeverWaitsForAPeerThatDoesNotRead) {
  Result<void> sent = Ok();
  while (sent) {
    sent = Send(near_.get(), Message(Kind::kDone));
  }
  EXPECT_EQ(sent.error().code, Code::kUnavailable);
}

TEST_F(MessageSocket, GivesUpAtTheDeadline) {
  ShimConnection connection(std::move(near_));
  const auto answer =
      connection.Call(Message(Kind::kWait), {}, std::chrono::milliseconds(20));
  EXPECT_EQ(answer.error().code, Code::kDeadlineExceeded);
}

TEST_F(MessageSocket, ReadsTheReasonThatAnEndedShimHasLeft) {
  ShimConnection connection(std::move(near_));
  const Error reason = MakeError(Code::kFailedPrecondition, "create", "web");
  ASSERT_TRUE(Send(far_.get(), Message::Failed(reason)));
  far_.reset();
  const auto answer = connection.Call(Message(Kind::kAwaitCreated));
  EXPECT_EQ(answer.error().Message(), reason.Message());
  EXPECT_EQ(connection.Call(Message(Kind::kAwaitCreated)).error().code,
            Code::kUnavailable);
}

TEST_F(MessageSocket, ReadsTheReasonOfAShimThatHasNotReadTheRequest) {
  ASSERT_TRUE(Send(near_.get(), Message(Kind::kAwaitCreated)));
  const Error reason = MakeError(Code::kFailedPrecondition, "create", "web");
  ASSERT_TRUE(Send(far_.get(), Message::Failed(reason)));
  far_.reset();
  EXPECT_EQ(ShimConnection(std::move(near_)).Next().error().Message(),
            reason.Message());
}

TEST(ShimLaunch, KeepsTheNumbersOfFds) {
  EXPECT_EQ(static_cast<int>(PassedFd::kCreateMessage), 3);
  EXPECT_EQ(static_cast<int>(PassedFd::kTaskDirectory), 4);
  EXPECT_EQ(static_cast<int>(PassedFd::kConnection), 5);
  EXPECT_EQ(static_cast<int>(PassedFd::kUserNamespace), 6);
  EXPECT_EQ(static_cast<int>(PassedFd::kNetworkNamespace), 7);
  EXPECT_EQ(static_cast<int>(PassedFd::kCgroup), 8);
  EXPECT_EQ(static_cast<int>(PassedFd::kStdout), 9);
  EXPECT_EQ(static_cast<int>(PassedFd::kStderr), 10);
}

TEST(ShimLaunch, SaysThatAMissingProgramHasEnded) {
  Launch launch;
  launch.program = "/nonexistent/mountd-task-shim";
  const TempDirectory directory;
  const UniqueFd fd(::open(directory.File("").c_str(), O_RDONLY | O_CLOEXEC));
  launch.task_directory = fd.get();
  auto shim = LaunchShim(std::move(launch));
  ASSERT_TRUE(shim) << shim.error().Message();
  EXPECT_EQ(shim->Next().error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace mountd::shim
