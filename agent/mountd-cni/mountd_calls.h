// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "agent/client.h"
#include "agent/mountd-cni/config.h"
#include "agent/mountd-cni/environment.h"
#include "agent/mountd-cni/failure.h"
#include "mountd/base/result.h"

// The connection of one call of the plugin to mountd.
namespace mountd::cni_plugin {

// The pause between two tries to reach mountd, which starts within half a
// second.
inline constexpr std::chrono::milliseconds kRestartPause{50};

// Uses config.address, and waits for each answer at most `timeout`.
Result<agent::Client> Connect(const Config& config,
                              std::chrono::milliseconds timeout);
inline Result<agent::Client> Connect(const Config& config) {
  return Connect(config, config.timeout);
}

// True if mountd is away for the moment: its socket is not there yet, nobody
// listens on it, or mountd hung up. False if this user may not reach the
// socket.
bool IsAway(const Error& error);

// Makes a call, and repeats it while mountd is away, within config.timeout. A
// runtime calls DEL only once, and takes a failed CHECK for a broken network.
template <typename Work>
auto AwaitMountd(const Config& config, const Work& work)
    -> decltype(work(std::declval<agent::Client&>())) {
  using std::chrono::milliseconds;
  using std::chrono::steady_clock;
  const auto deadline = steady_clock::now() + config.timeout;
  milliseconds left = config.timeout;
  for (;;) {
    auto outcome = [&]() -> decltype(work(std::declval<agent::Client&>())) {
      MOUNTD_ASSIGN(agent::Client client, Connect(config, left));
      return work(client);
    }();
    left = std::chrono::duration_cast<milliseconds>(deadline -
                                                    steady_clock::now());
    if (outcome || !IsAway(outcome.error()) || left <= kRestartPause) {
      return outcome;
    }
    std::this_thread::sleep_for(kRestartPause);
    left -= kRestartPause;
  }
}

// Returns the container's interface as mountd knows it. Waits for mountd while
// mountd is away. kUnknownContainer if mountd has no such interface.
Outcome<agent::NetworkStatus> FindInterface(const Environment& environment,
                                            const Config& config);

}  // namespace mountd::cni_plugin
