// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/types/rpc_error.h"

#include <gtest/gtest.h>

#include <set>

namespace mountd::csi {
namespace {

TEST(RpcError, OnlyAPluginsOwnFinishedAnswerIsFinal) {
  const std::set<int> final{3, 5, 6, 7, 9, 11, 12, 13, 16};
  for (int code = 0; code <= 16; ++code) {
    EXPECT_EQ(final.count(code) != 0,
              (RpcError{static_cast<RpcCode>(code), ""}.IsFinal()))
        << code;
  }
  EXPECT_FALSE((RpcError{static_cast<RpcCode>(99), ""}.IsFinal()));
}

TEST(RpcError, BecomesTheApisErrorWithTheRpcCodeInTheDetail) {
  const struct {
    RpcCode rpc;
    Code code;
  } kTable[] = {
      {RpcCode::kInvalidArgument, Code::kInvalidArgument},
      {RpcCode::kOutOfRange, Code::kInvalidArgument},
      {RpcCode::kNotFound, Code::kNotFound},
      {RpcCode::kAlreadyExists, Code::kAlreadyExists},
      {RpcCode::kPermissionDenied, Code::kPermissionDenied},
      {RpcCode::kUnauthenticated, Code::kPermissionDenied},
      {RpcCode::kResourceExhausted, Code::kResourceExhausted},
      {RpcCode::kFailedPrecondition, Code::kFailedPrecondition},
      {RpcCode::kAborted, Code::kAborted},
      {RpcCode::kUnimplemented, Code::kNotSupported},
      {RpcCode::kUnavailable, Code::kUnavailable},
      {RpcCode::kCancelled, Code::kUnavailable},
      {RpcCode::kDeadlineExceeded, Code::kDeadlineExceeded},
      {RpcCode::kUnknown, Code::kInternal},
      {RpcCode::kInternal, Code::kInternal},
      {RpcCode::kDataLoss, Code::kInternal},
  };
  for (const auto& row : kTable) {
    EXPECT_EQ(row.code, ToError({row.rpc, ""}, "op", "v").code);
  }
  const Error error =
      ToError({RpcCode::kAborted, "pending"}, "NodeStageVolume", "vol");
  EXPECT_EQ("NodeStageVolume", error.op);
  EXPECT_EQ("vol", error.object);
  EXPECT_EQ("ABORTED: pending", error.detail);
}

TEST(RpcError, TellsThePluginFromMountdCsi) {
  EXPECT_EQ(ToError({RpcCode::kUnavailable, ""}, "op", "v").away,
            Away::kPlugin);
  EXPECT_EQ(ToError({RpcCode::kUnavailable, "", true}, "op", "v").away,
            Away::kRestarting);
  for (const RpcCode code : {RpcCode::kCancelled, RpcCode::kAborted,
                             RpcCode::kDeadlineExceeded, RpcCode::kInternal}) {
    EXPECT_EQ(ToError({code, ""}, "op", "v").away, Away::kNone);
  }
}

}  // namespace
}  // namespace mountd::csi
