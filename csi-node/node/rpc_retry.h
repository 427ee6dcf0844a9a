// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <thread>

#include "csi-node/types/csi_client.h"
#include "mountd/base/caller.h"
#include "mountd/base/progress.h"

namespace mountd::csi {

// Sleeps until `end`, or until the call is cancelled.
inline void PauseUnlessCancelled(Clock::time_point end,
                                 const CancelToken& cancelled) {
  constexpr std::chrono::milliseconds kLook{50};
  while (!IsCancelled(cancelled) && Clock::now() < end) {
    std::this_thread::sleep_until(std::min(end, Clock::now() + kLook));
  }
}

// Calls `call()` until it succeeds, fails finally (RpcError::IsFinal), or is
// cancelled, or until `budget` is over; then no further try begins. A timeout
// is not final, so this function calls a NodePublishVolume that timed out
// again. Waits between two tries, first 100 ms, doubling to 5 s, with jitter
// (CSI spec: ABORTED and similar codes are retried with exponential back-off).
// Returns the last outcome. `call` must look up the plugin's channel each time,
// because UNAVAILABLE often comes from a channel that is being replaced.
// Reports to `progress` the number of the try, and why the try before failed.
template <typename F>
auto RetryUntilFinal(std::chrono::milliseconds budget,
                     const CancelToken& cancelled, F call,
                     const Progress& progress = Progress())
    -> decltype(call()) {
  using std::chrono::milliseconds;
  thread_local std::minstd_rand random{std::random_device{}()};
  const Clock::time_point end = Clock::now() + budget;
  std::uint32_t attempt = 0;
  for (milliseconds pause{100};;
       pause = std::min(pause * 2, milliseconds{5000})) {
    progress.Attempt(++attempt);
    auto outcome = call();
    const milliseconds jittered =
        pause / 2 + pause * static_cast<int>(random() % 512) / 1024;
    const Clock::time_point next = Clock::now() + jittered;
    if (outcome || outcome.error().IsFinal() || next >= end) {
      progress.EndAttempts();
      return outcome;
    }
    progress.Failed(ToCode(outcome.error().code));
    PauseUnlessCancelled(next, cancelled);
    if (IsCancelled(cancelled)) {
      progress.EndAttempts();
      return outcome;
    }
  }
}

}  // namespace mountd::csi
