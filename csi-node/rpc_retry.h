// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "csi-node/csi_client.h"
#include "mountd/caller.h"

namespace mountd::csi {

// Makes `call(deadline)` until it succeeds, fails for good, is cancelled, or
// `budget` is over; between two tries it waits 100 ms doubling to 5 s, with
// jitter (CSI spec: ABORTED and friends are retried with exponential back-off).
// Answers the last outcome.
template <typename F>
auto RetryUntilFinal(std::chrono::milliseconds budget,
                     const CancelToken& cancelled, F call)
    -> decltype(call(Clock::time_point())) {
  using std::chrono::milliseconds;
  thread_local std::minstd_rand random{std::random_device{}()};
  const Clock::time_point deadline = Clock::now() + budget;
  for (milliseconds pause{100};;
       pause = std::min(pause * 2, milliseconds{5000})) {
    auto outcome = call(deadline);
    // A dead channel stays dead: trying again is the supervisor's affair.
    if (outcome || outcome.error().IsFinal() ||
        outcome.error().code == RpcCode::kUnavailable ||
        (cancelled != nullptr && *cancelled)) {
      return outcome;
    }
    const milliseconds jittered =
        pause / 2 + pause * static_cast<int>(random() % 512) / 1024;
    if (Clock::now() + jittered >= deadline) {
      return outcome;
    }
    std::this_thread::sleep_for(jittered);
  }
}

}  // namespace mountd::csi
