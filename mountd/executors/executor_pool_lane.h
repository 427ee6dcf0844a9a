// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/base/user_turns.h"

namespace mountd::exec {

// Owns executors' connections and gives them out for one plan at a time. Users
// take turns, and one user's plans come in their order. Thread-safe.
class ExecutorLane {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::uint32_t kUnlimited =
      std::numeric_limits<std::uint32_t>::max();

  struct Options {
    std::uint32_t width = 1;  // plans at once
    // A plan that has taken this long probably hangs. From then on it does not
    // count towards `width`, so that the next plan need not wait for its
    // deadline. At most `spare` plans stay uncounted.
    std::chrono::milliseconds slow{250};
    std::uint32_t spare = 0;
    // The most plans of one user at once, and the most of that user's plans on
    // one object.
    std::uint32_t of_user = kUnlimited;
    std::uint32_t on_object = kUnlimited;
    // The most slow plans that a user may have when the user's next plan
    // begins. Abandoned plans, which `stuck_of` counts, count as slow.
    std::uint32_t slow_of_user = kUnlimited;
    std::function<std::uint32_t(std::uint32_t user)> stuck_of = {};
  };

  // The user and the object of a plan.
  struct Key {
    std::uint32_t user = 0;
    std::string object = {};  // "": nothing distinguishes the object
  };

  // The right to run one plan, given back with Give.
  struct Turn {
    UniqueFd connection;  // invalid: the caller may open one
    UserTurns::Ticket ticket = 0;
    std::uint64_t generation = 0;  // of the connection
  };

  explicit ExecutorLane(Options options) : options_(options) {}

  // Adds a connection that was opened elsewhere. Ignores an invalid one.
  void Add(UniqueFd connection);

  // Waits for a turn. DeadlineExceeded if no turn comes in time.
  Result<Turn> Take(Key key, Clock::time_point deadline);
  // Gives back a turn, with its connection for the next plan. If the connection
  // was lost, it is invalid.
  void Give(Turn turn);

  // Closes idle connections at once and busy ones after their plan, because
  // their executors have an old configuration.
  void Renew();

  // Closes as many connections as were idle all the time since the last call,
  // except `keep`.
  void CloseIdle(std::size_t keep = 1);

 private:
  struct Running {
    Key key;
    Clock::time_point since;
  };

  // The caller holds the mutex.
  bool IsSlow(const Running& one, Clock::time_point now) const;
  bool HasRoom(Clock::time_point now) const;
  bool MayRun(const Key& key, Clock::time_point now) const;
  void Serve(Clock::time_point now);
  Clock::time_point NextSlow(Clock::time_point now) const;

  const Options options_;
  std::mutex mutex_;
  std::condition_variable turn_;
  std::uint64_t generation_ = 0;  // counts calls of Renew
  UserTurns waiting_;
  std::map<UserTurns::Ticket, Key> keys_;  // of the plans that wait
  std::map<UserTurns::Ticket, Running> running_;
  std::vector<UniqueFd> idle_;   // the last used is last
  std::size_t fewest_idle_ = 0;  // since the last CloseIdle
};

}  // namespace mountd::exec
