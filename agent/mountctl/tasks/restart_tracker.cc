// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/tasks/restart_tracker.h"

#include <algorithm>

namespace mountd::agent {
namespace {

bool IsInInterval(const RestartPolicy& policy, BootTime now,
                  const RestartCount& count) {
  return count.in_interval > 0 && now >= count.interval_began &&
         now - count.interval_began < policy.interval;
}

}  // namespace

RestartDecision DecideRestart(const RestartPolicy& policy, bool success,
                              BootTime now, RestartCount& count) {
  using What = RestartDecision::What;
  if (success) {
    return {.what = What::kComplete};
  }
  const bool same_interval = IsInInterval(policy, now, count);
  if (!same_interval) {
    count.in_interval = 0;
    count.interval_began = now;
  }
  std::chrono::milliseconds delay = policy.delay;
  if (count.in_interval < policy.attempts) {
    ++count.in_interval;
  } else if (policy.mode == RestartMode::kFail) {
    return {.what = What::kFailed,
            .reason = policy.attempts == 0
                          ? "the job allows no restart"
                          : "the attempts of the interval are used up"};
  } else {
    // The restart at the end of this interval is the first one of the next.
    const std::chrono::milliseconds left =
        count.interval_began + policy.interval - now;
    delay = std::max(delay, left);
    count.interval_began = now + delay;
    count.in_interval = std::min<std::uint32_t>(policy.attempts, 1);
  }
  ++count.total;
  return {.what = What::kRestart, .delay = delay};
}

}  // namespace mountd::agent
