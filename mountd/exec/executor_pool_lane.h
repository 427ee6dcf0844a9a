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

// Executors' connections, handed out one plan at a time, first come, first
// served. Thread-safe.
class ExecutorLane {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    std::uint32_t width = 1;  // plans at once
    // A plan that has taken this long most likely hangs: it does not count any
    // more, so that whoever waits needs not wait for its deadline. At most
    // `spare` of them.
    std::chrono::milliseconds slow{250};
    std::uint32_t spare = 0;
  };

  // The right to run one plan, given back with Give.
  struct Turn {
    UniqueFd connection;  // invalid: one may be opened
    std::uint64_t ticket = 0;
    std::uint64_t generation = 0;  // of the connection
  };

  explicit ExecutorLane(Options options) : options_(options) {}

  // A connection that was opened elsewhere, for the next plan. None, if it is
  // invalid.
  void Add(UniqueFd connection);

  // DeadlineExceeded if its turn does not come before.
  Result<Turn> Take(Clock::time_point deadline);
  // With the connection, for the next plan; an invalid one was lost.
  void Give(Turn turn);

  // Closes all, those that carry out a plan after it: what they know of their
  // configuration is old.
  void Renew();

  // Closes as many as were never needed since the last call, except `keep`.
  void CloseIdle(std::size_t keep = 1);

 private:
  // With the mutex.
  bool HasRoom(Clock::time_point now) const;
  Clock::time_point NextSlow(Clock::time_point now) const;

  const Options options_;
  std::mutex mutex_;
  std::condition_variable turn_;
  std::uint64_t next_ticket_ = 0;
  std::uint64_t generation_ = 0;     // how often they were renewed
  std::set<std::uint64_t> waiting_;  // tickets; the lowest is next
  std::map<std::uint64_t, Clock::time_point> running_;  // since when
  std::vector<UniqueFd> idle_;                          // the last used last
  std::size_t fewest_idle_ = 0;  // since the last CloseIdle
};

}  // namespace mountd::exec
