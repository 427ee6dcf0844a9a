// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/executors/executor_pool_lane.h"

#include <algorithm>
#include <utility>

namespace mountd::exec {

bool ExecutorLane::IsSlow(const Running& one, Clock::time_point now) const {
  return one.since + options_.slow <= now;
}

bool ExecutorLane::HasRoom(Clock::time_point now) const {
  if (running_.size() >= std::size_t{options_.width} + options_.spare) {
    return false;
  }
  const auto quick = std::count_if(
      running_.begin(), running_.end(),
      [&](const auto& running) { return !IsSlow(running.second, now); });
  return static_cast<std::size_t>(quick) < options_.width;
}

// Returns whether the plan may run within the bounds of its user.
bool ExecutorLane::MayRun(const Key& key, Clock::time_point now) const {
  std::uint32_t of_user = 0;
  std::uint32_t on_object = 0;
  std::uint64_t slow = options_.stuck_of ? options_.stuck_of(key.user) : 0;
  for (const auto& [ticket, running] : running_) {
    if (running.key.user != key.user) {
      continue;
    }
    ++of_user;
    slow += IsSlow(running, now) ? 1U : 0U;
    on_object +=
        !key.object.empty() && running.key.object == key.object ? 1U : 0U;
  }
  return of_user < options_.of_user && slow <= options_.slow_of_user &&
         on_object < options_.on_object;
}

// Moves as many plans as there is room for from waiting_ to running_.
void ExecutorLane::Serve(Clock::time_point now) {
  const auto may = [&](UserTurns::Ticket ticket, std::uint32_t /*user*/) {
    return MayRun(keys_.at(ticket), now);
  };
  while (HasRoom(now)) {
    const std::optional<UserTurns::Ticket> next = waiting_.Next(may);
    if (!next) {
      return;
    }
    waiting_.Begin(*next);
    running_.emplace(*next, Running{keys_.extract(*next).mapped(), now});
    // Wake the plans that still wait, too. Each of them must wait for a shorter
    // time, because this plan may become slow before all others.
    turn_.notify_all();
  }
}

// Returns when the next running plan becomes slow.
ExecutorLane::Clock::time_point ExecutorLane::NextSlow(
    Clock::time_point now) const {
  Clock::time_point next = Clock::time_point::max();
  for (const auto& [ticket, running] : running_) {
    if (!IsSlow(running, now)) {
      next = std::min(next, running.since + options_.slow);
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

Result<ExecutorLane::Turn> ExecutorLane::Take(Key key,
                                              Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  Turn turn;
  turn.ticket = waiting_.Add(key.user);
  keys_.emplace(turn.ticket, std::move(key));
  Clock::time_point now = Clock::now();
  Serve(now);
  while (!running_.contains(turn.ticket) && now < deadline) {
    // Wake when a running plan becomes slow, because from then on it does not
    // count.
    const std::cv_status status =
        turn_.wait_until(lock, std::min(deadline, NextSlow(now)));
    now = Clock::now();
    if (status == std::cv_status::timeout) {
      Serve(now);
    }
  }
  if (!running_.contains(turn.ticket)) {
    waiting_.Leave(turn.ticket);
    keys_.erase(turn.ticket);
    return MakeError(Code::kDeadlineExceeded, "plan", "executor",
                     "all executors were busy for too long; call again later");
  }
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
  if (running_.empty() && waiting_.empty()) {
    waiting_.Reset();
  }
  // An older connection leads to an executor with an old configuration, so
  // close it here. Then that executor ends.
  if (turn.connection.valid() && turn.generation == generation_) {
    idle_.push_back(std::move(turn.connection));
  }
  Serve(Clock::now());
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
