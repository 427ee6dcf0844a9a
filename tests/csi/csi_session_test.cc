// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/client/csi_session.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"

namespace mountd::csi {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{30'000};

// Holds mountd-csi's end of the connection in the test.
class CsiSessionTest : public ::testing::Test {
 protected:
  CsiSessionTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()),
              0);
    peer_.emplace(UniqueFd(ends[0]), ipc::FrameSocket::AcceptFds::kYes);
    session_.emplace(UniqueFd(ends[1]), [this] { ++deaths_; });
  }

  // Returns a request of the largest size. Two of them do not fit into the
  // socket.
  static ipc::Request Large() {
    ipc::Request request;
    request.method = ipc::Method::kCallController;
    request.channel = {"csi", 1};
    request.arguments =
        ControllerCall{"GetCapacity", ControllerCall::Form::kBytes,
                       std::string(ipc::kMaxControllerRequest, 'x')};
    return request;
  }
  RpcCode Call(milliseconds patience) {
    const RpcResult<ipc::Reply> reply =
        session_->Call(Large(), UniqueFd(), Clock::now() + patience);
    return reply ? RpcCode::kOk : reply.error().code;
  }

  // Reads and answers requests until there are `count`. Returns their ids.
  std::vector<std::uint64_t> Answer(std::size_t count) {
    std::vector<std::uint64_t> ids;
    while (ids.size() < count) {
      pollfd entry{peer_->fd(), POLLIN, 0};
      std::vector<ipc::Frame> frames;
      if (::poll(&entry, 1, -1) < 0 || !peer_->Receive(&frames)) {
        return ids;
      }
      for (const ipc::Frame& frame : frames) {
        const Result<ipc::Request> request = ipc::DecodeRequest(frame.payload);
        if (!request) {
          return ids;
        }
        ids.push_back(request->id);
        ipc::Reply reply;
        reply.id = request->id;
        EXPECT_TRUE(peer_->Queue({ipc::Encode(reply), UniqueFd()}));
        EXPECT_TRUE(peer_->Flush());
      }
    }
    return ids;
  }

  std::optional<ipc::FrameSocket> peer_;
  std::atomic<int> deaths_ = 0;
  std::optional<CsiSession> session_;
};

TEST_F(CsiSessionTest, WhatDoesNotFitIsSentOnceThereIsRoom) {
  constexpr std::size_t kCallers = 16;
  std::vector<std::thread> callers;
  std::atomic<int> answered = 0;
  for (std::size_t i = 0; i < kCallers; ++i) {
    callers.emplace_back(
        [&] { answered += Call(kPatience) == RpcCode::kOk ? 1 : 0; });
  }
  const std::vector<std::uint64_t> ids = Answer(kCallers);
  for (std::thread& caller : callers) {
    caller.join();
  }
  EXPECT_EQ(answered, static_cast<int>(kCallers));
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), kCallers);
}

TEST_F(CsiSessionTest, WhoGivesUpLeavesTheOthersTheirRequestsWhole) {
  EXPECT_EQ(Call(milliseconds(1)), RpcCode::kDeadlineExceeded);
  EXPECT_EQ(Call(milliseconds(1)), RpcCode::kDeadlineExceeded);
  std::thread caller([&] { EXPECT_EQ(Call(kPatience), RpcCode::kOk); });
  EXPECT_EQ(Answer(3), (std::vector<std::uint64_t>{1, 2, 3}));
  caller.join();
  EXPECT_EQ(deaths_, 0);
}

TEST_F(CsiSessionTest, APeerThatGoesWithRequestsUnreadEndsThem) {
  std::thread caller(
      [&] { EXPECT_EQ(Call(kPatience), RpcCode::kUnavailable); });
  EXPECT_EQ(Call(milliseconds(1)), RpcCode::kDeadlineExceeded);
  peer_.reset();
  caller.join();
  EXPECT_EQ(Call(kPatience), RpcCode::kUnavailable);
  EXPECT_TRUE(testing::Eventually([this] { return deaths_ == 1; }));
  session_.reset();
  EXPECT_EQ(deaths_, 1);
}

}  // namespace
}  // namespace mountd::csi
