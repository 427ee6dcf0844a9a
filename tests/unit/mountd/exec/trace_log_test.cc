// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/exec/trace_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "mountd/base/error.h"
#include "mountd/base/unique_fd.h"

namespace mountd::exec {
namespace {

class TraceLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
    read_ = UniqueFd(ends[0]);
    write_ = UniqueFd(ends[1]);
    trace_.trace_id.fill(0xab);
    trace_.span_id.fill(0x0c);
  }
  std::string Read() {
    std::array<char, 65536> text{};
    const ssize_t size = ::read(read_.get(), text.data(), text.size());
    return {text.data(), size < 0 ? 0 : static_cast<std::size_t>(size)};
  }

  UniqueFd read_;
  UniqueFd write_;
  PlanTrace trace_;
};

TEST_F(TraceLogTest, APlanOfATraceIsALine) {
  TraceLog log(write_.get());
  log.Write(PlanKind::kAttach, trace_, 0);
  log.Write(PlanKind::kRunCni, trace_, static_cast<std::uint32_t>(Code::kBusy));
  const std::string ids =
      " trace_id=" + std::string("abababababababababababababababab") +
      " span_id=0c0c0c0c0c0c0c0c ";
  EXPECT_EQ(Read(), "mountd-exec: plan Attach" + ids +
                        "ok\nmountd-exec: plan RunCni" + ids + "Busy\n");
}

TEST_F(TraceLogTest, APlanOfNoTraceIsNone) {
  TraceLog log(write_.get());
  log.Write(PlanKind::kAttach, PlanTrace(), 0);
  EXPECT_EQ(Read(), "");
}

TEST_F(TraceLogTest, LinesAreBounded) {
  TraceLog log(write_.get());
  for (int i = 0; i < 10 * TraceLog::kMostLines; ++i) {
    log.Write(PlanKind::kAttach, trace_, 0);
  }
  const std::string text = Read();
  // The second may end on the way.
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'),
            2 * TraceLog::kMostLines);
  EXPECT_GE(std::count(text.begin(), text.end(), '\n'), TraceLog::kMostLines);
}

// A naive write would hang, or end the process by SIGPIPE.
TEST_F(TraceLogTest, AFullOrClosedStderrIsNoReasonToWait) {
  ASSERT_EQ(::fcntl(write_.get(), F_SETFL, 0), 0);
  ::fcntl(write_.get(), F_SETPIPE_SZ, 4096);
  const std::string page(4096, 'x');
  ASSERT_EQ(::write(write_.get(), page.data(), page.size()), 4096);
  TraceLog log(write_.get());
  log.Write(PlanKind::kAttach, trace_, 0);
  EXPECT_EQ(Read(), page);
  read_.reset();
  log.Write(PlanKind::kAttach, trace_, 0);
}

}  // namespace
}  // namespace mountd::exec
