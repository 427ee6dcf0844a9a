// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/exec/trace_log.h"

#include <poll.h>
#include <unistd.h>

#include <string>

#include "mountd/base/error.h"
#include "mountd/base/trace_parent.h"
#include "mountd/plan/plan_kinds.h"

namespace mountd::exec {

bool TraceLog::TakeLine() {
  const auto now = std::chrono::steady_clock::now();
  if (now - second_ >= std::chrono::seconds(1)) {
    second_ = now;
    lines_ = 0;
  }
  return lines_++ < kMostLines;
}

void TraceLog::Write(PlanKind kind, const PlanTrace& trace,
                     std::uint32_t code) {
  if (trace == PlanTrace{} || !TakeLine()) {
    return;
  }
  std::string line = "mountd-exec: plan ";
  line += PlanName(kind);
  line += " trace_id=" + ToHex(trace.trace_id) +
          " span_id=" + ToHex(trace.span_id) + " ";
  line += code == 0 ? "ok" : CodeName(static_cast<Code>(code));
  line += "\n";
  pollfd entry = {fd_, POLLOUT, 0};
  if (::poll(&entry, 1, 0) == 1 && entry.revents == POLLOUT) {
    // Write only on POLLOUT without POLLERR. POLLERR means that nobody reads
    // any more, and a write would end this process by SIGPIPE. A line that does
    // not fit is lost.
    [[maybe_unused]] const ssize_t written =
        ::write(fd_, line.data(), line.size());
  }
}

}  // namespace mountd::exec
