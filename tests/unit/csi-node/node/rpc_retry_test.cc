// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/node/rpc_retry.h"

#include <gtest/gtest.h>

#include <vector>

namespace mountd::csi {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPlenty{60'000};

// Ends with each of `codes` in turn, and then with the last one again and
// again; kOk succeeds.
class Calls {
 public:
  explicit Calls(std::vector<RpcCode> codes) : codes_(std::move(codes)) {}

  RpcResult<int> operator()() {
    const std::size_t index = std::min(++made, codes_.size()) - 1;
    if (codes_[index] == RpcCode::kOk) {
      return 7;
    }
    return RpcError{codes_[index], "as the test wants"};
  }

  std::size_t made = 0;

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
  EXPECT_EQ(calls.made, 1U);
}

TEST(RpcRetryTest, AnUncertainAnswerIsTriedAgain) {
  Calls calls({RpcCode::kAborted, RpcCode::kUnknown, RpcCode::kOk});
  EXPECT_EQ(Retry(calls).value(), 7);
  EXPECT_EQ(calls.made, 3U);
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
    EXPECT_EQ(calls.made, 1U);
  }
}

TEST(RpcRetryTest, AFinalAnswerAfterAnUncertainOneIsTheOutcome) {
  Calls calls({RpcCode::kDeadlineExceeded, RpcCode::kInternal});
  EXPECT_EQ(Retry(calls).error().code, RpcCode::kInternal);
  EXPECT_EQ(calls.made, 2U);
}

TEST(RpcRetryTest, WhatIsUncertainIsTriedAgain) {
  for (const RpcCode code :
       {RpcCode::kUnavailable, RpcCode::kAborted, RpcCode::kDeadlineExceeded,
        RpcCode::kResourceExhausted, RpcCode::kUnknown, RpcCode::kCancelled,
        RpcCode::kDataLoss}) {
    EXPECT_FALSE((RpcError{code, ""}.IsFinal()));
    Calls calls({code, RpcCode::kOk});
    EXPECT_EQ(Retry(calls).value(), 7);
    EXPECT_EQ(calls.made, 2U);
  }
}

TEST(RpcRetryTest, ACancellationEndsAPause) {
  const CancelToken cancelled = std::make_shared<std::atomic<bool>>(false);
  Calls calls({RpcCode::kAborted});
  const auto outcome =
      RetryUntilFinal(kPlenty, cancelled, [&]() -> RpcResult<int> {
        *cancelled = true;
        return calls();
      });
  EXPECT_EQ(outcome.error().code, RpcCode::kAborted);
  EXPECT_EQ(calls.made, 1U);
}

TEST(RpcRetryTest, TheBudgetBoundsTheTries) {
  Calls calls({RpcCode::kAborted});
  EXPECT_EQ(Retry(calls, milliseconds(1000)).error().code, RpcCode::kAborted);
  EXPECT_GE(calls.made, 2U);
  // The shortest pauses, each twice as long as the one before.
  EXPECT_LE(calls.made, 6U);
  Calls once({RpcCode::kAborted});
  EXPECT_EQ(Retry(once, milliseconds(0)).error().code, RpcCode::kAborted);
  EXPECT_EQ(once.made, 1U);
}

TEST(RpcRetryTest, ACancelledCallIsNotTriedAgain) {
  const CancelToken cancelled = std::make_shared<std::atomic<bool>>(true);
  Calls calls({RpcCode::kAborted});
  EXPECT_EQ(Retry(calls, kPlenty, cancelled).error().code, RpcCode::kAborted);
  EXPECT_EQ(calls.made, 1U);
}

}  // namespace
}  // namespace mountd::csi
