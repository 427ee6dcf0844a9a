// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>

#include "mountd/plan/message.h"

namespace mountd::exec {

// Writes one line on stderr for each plan that is part of a caller's trace:
//
//   mountd-exec: plan Attach trace_id=<32 digits> span_id=<16 digits> ok
//
// Writes at most kMostLines a second, because callers decide how many lines
// there would be. Leaves a line out if stderr would block, because no plan may
// wait for a log.
//
// Runs on one thread.
class TraceLog {
 public:
  static constexpr int kMostLines = 20;

  // `fd` outlives this object.
  explicit TraceLog(int fd) : fd_(fd) {}

  // `code` is the answer's (Reply::code).
  void Write(PlanKind kind, const PlanTrace& trace, std::uint32_t code);

 private:
  bool TakeLine();

  const int fd_;
  std::chrono::steady_clock::time_point second_{};
  int lines_ = 0;  // since second_
};

}  // namespace mountd::exec
