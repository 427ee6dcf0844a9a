// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/error.h"

#include <gtest/gtest.h>

#include <string>

namespace mountd {
namespace {

TEST(ErrorTest, EveryCodeHasAName) {
  for (std::uint32_t value = 1; value <= static_cast<std::uint32_t>(kLastCode);
       ++value) {
    const Code code = static_cast<Code>(value);
    EXPECT_EQ(CodeFromName(CodeName(code)), code) << value;
  }
}

TEST(ErrorTest, AnUnknownNameOrNumberIsInternal) {
  EXPECT_EQ(CodeFromName("NoSuchError"), Code::kInternal);
  EXPECT_EQ(CodeFromName(""), Code::kInternal);
  EXPECT_EQ(CodeName(static_cast<Code>(0)), "Internal");
  EXPECT_EQ(CodeName(static_cast<Code>(99)), "Internal");
}

TEST(ErrorTest, TheMessageSaysWhatOnWhatAndWhy) {
  EXPECT_EQ(
      ErrnoError(EINVAL, "move_mount", "web/data", "not a directory").Message(),
      "move_mount web/data: not a directory (EINVAL)");
  EXPECT_EQ(MakeError(Code::kNotFound, "get", "web").Message(), "get web");
  EXPECT_EQ(ErrnoError(EBUSY, "umount2", "").Message(), "umount2 (EBUSY)");
  EXPECT_EQ(ErrnoError(12345, "ioctl", "").Message(), "ioctl (12345)");
}

TEST(ErrorTest, OnlyAnUnavailableSaysWhoIsAway) {
  EXPECT_EQ(MakeError(Code::kUnavailable, "op", "o").away, Away::kNone);
  EXPECT_EQ(
      WithAway(Away::kPlugin, MakeError(Code::kUnavailable, "op", "o")).away,
      Away::kPlugin);
  EXPECT_EQ(WithAway(Away::kPlugin, MakeError(Code::kBusy, "op", "o")).away,
            Away::kNone);
  EXPECT_EQ(AwayName(Away::kNone), "");
  EXPECT_EQ(AwayName(Away::kDaemon), "daemon");
  EXPECT_EQ(AwayName(Away::kRestarting), "restarting");
  EXPECT_EQ(AwayName(Away::kPlugin), "plugin");
}

TEST(ErrorTest, ErrnosBecomeWhatAClientBranchesOn) {
  EXPECT_EQ(CodeFromErrno(ENOENT), Code::kNotFound);
  EXPECT_EQ(CodeFromErrno(EBUSY), Code::kBusy);
  EXPECT_EQ(CodeFromErrno(EPERM), Code::kPermissionDenied);
  EXPECT_EQ(CodeFromErrno(ELOOP), Code::kInvalidArgument);
  EXPECT_EQ(CodeFromErrno(ENOSPC), Code::kResourceExhausted);
  EXPECT_EQ(CodeFromErrno(ETIMEDOUT), Code::kDeadlineExceeded);
  EXPECT_EQ(CodeFromErrno(EIO), Code::kInternal);
}

}  // namespace
}  // namespace mountd
