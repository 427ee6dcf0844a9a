// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::exec {

// Owns executors' connections and gives them out for one plan at a time, first
// come, first served. Thread-safe.
class ExecutorLane {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    std::uint32_t width = 1;  // plans at once
    // A plan that has taken this long probably hangs. It then no longer counts,
    // so that the next plan need not wait for its deadline. At most `spare`
    // plans do not count.
    std::chrono::milliseconds slow{250};
    std::uint32_t spare = 0;
  };

  // The right to run one plan, given back with Give.
  struct Turn {
    UniqueFd connection;  // invalid: the caller may open one
    std::uint64_t ticket = 0;
    std::uint64_t generation = 0;  // of the connection
  };

  explicit ExecutorLane(Options options) : options_(options) {}

  // Adds a connection that was opened elsewhere. Ignores an invalid one.
  void Add(UniqueFd connection);

  // Waits for a turn. DeadlineExceeded if it does not come in time.
  Result<Turn> Take(Clock::time_point deadline);
  // Returns the turn with its connection for the next plan. An invalid
  // connection was lost.
  void Give(Turn turn);

  // Closes idle connections at once and busy ones after their plan, because
  // their executors have an old configuration.
  void Renew();

  // Closes as many connections as were idle all the time since the last call,
  // except `keep`.
  void CloseIdle(std::size_t keep = 1);

 private:
  // The caller holds the mutex.
  bool HasRoom(Clock::time_point now) const;
  Clock::time_point NextSlow(Clock::time_point now) const;

  const Options options_;
  std::mutex mutex_;
  std::condition_variable turn_;
  std::uint64_t next_ticket_ = 0;
  std::uint64_t generation_ = 0;     // counts calls of Renew
  std::set<std::uint64_t> waiting_;  // tickets; the lowest is next
  std::map<std::uint64_t, Clock::time_point> running_;  // since when
  std::vector<UniqueFd> idle_;                          // the last used is last
  std::size_t fewest_idle_ = 0;  // since the last CloseIdle
};

}  // namespace mountd::exec
