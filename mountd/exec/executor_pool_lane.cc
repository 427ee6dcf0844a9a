// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/exec/executor_pool_lane.h"

#include <algorithm>
#include <utility>

namespace mountd::exec {

bool ExecutorLane::HasRoom(Clock::time_point now) const {
  if (running_.size() >= std::size_t{options_.width} + options_.spare) {
    return false;
  }
  const auto quick =
      std::count_if(running_.begin(), running_.end(), [&](const auto& running) {
        return running.second + options_.slow > now;
      });
  return static_cast<std::size_t>(quick) < options_.width;
}

// Returns when the next running plan becomes slow.
ExecutorLane::Clock::time_point ExecutorLane::NextSlow(
    Clock::time_point now) const {
  Clock::time_point next = Clock::time_point::max();
  for (const auto& [ticket, since] : running_) {
    if (since + options_.slow > now) {
      next = std::min(next, since + options_.slow);
    }
  }
  return next;
}

void ExecutorLane::Add(UniqueFd connection) {
  const std::lock_guard lock(mutex_);
  if (connection.valid()) {
    idle_.push_back(std::move(connection));
  }
}

Result<ExecutorLane::Turn> ExecutorLane::Take(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  Turn turn;
  turn.ticket = next_ticket_++;
  waiting_.insert(turn.ticket);
  Clock::time_point now = Clock::now();
  const auto served = [&] {
    return turn.ticket == *waiting_.begin() && HasRoom(now);
  };
  // Wake when a running plan becomes slow, because it then no longer counts.
  while (!served() && now < deadline) {
    turn_.wait_until(lock, std::min(deadline, NextSlow(now)));
    now = Clock::now();
  }
  const bool in_time = served();
  waiting_.erase(turn.ticket);
  // The next ticket may have room now.
  turn_.notify_all();
  if (!in_time) {
    return MakeError(Code::kDeadlineExceeded, "plan", "executor",
                     "all executors were busy for too long");
  }
  running_.emplace(turn.ticket, now);
  turn.generation = generation_;
  // Take the most recently used connection, so that the others stay idle and
  // CloseIdle can close them.
  if (!idle_.empty()) {
    turn.connection = std::move(idle_.back());
    idle_.pop_back();
  }
  fewest_idle_ = std::min(fewest_idle_, idle_.size());
  return turn;
}

void ExecutorLane::Give(Turn turn) {
  const std::lock_guard lock(mutex_);
  running_.erase(turn.ticket);
  // A connection of an older generation has an old configuration, so it closes
  // here and its executor ends.
  if (turn.connection.valid() && turn.generation == generation_) {
    idle_.push_back(std::move(turn.connection));
  }
  turn_.notify_all();
}

void ExecutorLane::Renew() {
  const std::lock_guard lock(mutex_);
  ++generation_;
  idle_.clear();
  fewest_idle_ = 0;
}

void ExecutorLane::CloseIdle(std::size_t keep) {
  const std::lock_guard lock(mutex_);
  // Connections at the front were used longest ago.
  const std::size_t unused =
      std::min(fewest_idle_, idle_.size() - std::min(keep, idle_.size()));
  idle_.erase(idle_.begin(), idle_.begin() + static_cast<long>(unused));
  fewest_idle_ = idle_.size();
}

}  // namespace mountd::exec
