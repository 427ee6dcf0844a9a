// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/rpc_retry.h"

#include <gtest/gtest.h>

#include <vector>

namespace mountd::csi {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPlenty{60'000};

// Ends with each of `codes` in turn, then with the last again; kOk succeeds.
class Calls {
 public:
  explicit Calls(std::vector<RpcCode> codes) : codes_(std::move(codes)) {}

  RpcResult<int> operator()(Clock::time_point deadline) {
    deadlines.push_back(deadline);
    const std::size_t index = std::min(deadlines.size(), codes_.size()) - 1;
    if (codes_[index] == RpcCode::kOk) {
      return 7;
    }
    return RpcError{codes_[index], "as the test wants"};
  }

  std::vector<Clock::time_point> deadlines;

 private:
  std::vector<RpcCode> codes_;
};

RpcResult<int> Retry(Calls& calls, milliseconds budget = kPlenty,
                     const CancelToken& cancelled = nullptr) {
  return RetryUntilFinal(budget, cancelled, std::ref(calls));
}

TEST(RpcRetryTest, ASuccessIsNotMadeAgain) {
  Calls calls({RpcCode::kOk});
  EXPECT_EQ(Retry(calls).value(), 7);
  EXPECT_EQ(calls.deadlines.size(), 1U);
}

TEST(RpcRetryTest, AnUncertainAnswerIsTriedAgain) {
  Calls calls({RpcCode::kAborted, RpcCode::kUnknown, RpcCode::kOk});
  EXPECT_EQ(Retry(calls).value(), 7);
  ASSERT_EQ(calls.deadlines.size(), 3U);
  // All tries share one budget.
  EXPECT_EQ(calls.deadlines[0], calls.deadlines[2]);
}

TEST(RpcRetryTest, AFinalAnswerIsNotTriedAgain) {
  for (const RpcCode code :
       {RpcCode::kInvalidArgument, RpcCode::kNotFound, RpcCode::kAlreadyExists,
        RpcCode::kPermissionDenied, RpcCode::kFailedPrecondition,
        RpcCode::kOutOfRange, RpcCode::kUnimplemented, RpcCode::kInternal,
        RpcCode::kUnauthenticated}) {
    EXPECT_TRUE((RpcError{code, ""}.IsFinal()));
    Calls calls({code});
    EXPECT_EQ(Retry(calls).error().code, code);
    EXPECT_EQ(calls.deadlines.size(), 1U);
  }
}

TEST(RpcRetryTest, AFinalAnswerAfterAnUncertainOneIsTheOutcome) {
  Calls calls({RpcCode::kDeadlineExceeded, RpcCode::kInternal});
  EXPECT_EQ(Retry(calls).error().code, RpcCode::kInternal);
  EXPECT_EQ(calls.deadlines.size(), 2U);
}

TEST(RpcRetryTest, ADeadChannelIsUncertainAndNotTriedAgain) {
  EXPECT_FALSE((RpcError{RpcCode::kUnavailable, ""}.IsFinal()));
  Calls calls({RpcCode::kUnavailable});
  EXPECT_EQ(Retry(calls).error().code, RpcCode::kUnavailable);
  EXPECT_EQ(calls.deadlines.size(), 1U);
}

TEST(RpcRetryTest, TheBudgetBoundsTheTries) {
  Calls calls({RpcCode::kAborted});
  EXPECT_EQ(Retry(calls, milliseconds(1000)).error().code, RpcCode::kAborted);
  EXPECT_GE(calls.deadlines.size(), 2U);
  EXPECT_LE(calls.deadlines.size(), 6U);  // the shortest pauses, doubling
  Calls once({RpcCode::kAborted});
  EXPECT_EQ(Retry(once, milliseconds(0)).error().code, RpcCode::kAborted);
  EXPECT_EQ(once.deadlines.size(), 1U);
}

TEST(RpcRetryTest, ACancelledCallIsNotTriedAgain) {
  const CancelToken cancelled = std::make_shared<std::atomic<bool>>(true);
  Calls calls({RpcCode::kAborted});
  EXPECT_EQ(Retry(calls, kPlenty, cancelled).error().code, RpcCode::kAborted);
  EXPECT_EQ(calls.deadlines.size(), 1U);
}

}  // namespace
}  // namespace mountd::csi
