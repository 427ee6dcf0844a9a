// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace mountd {

// Orders the work of several users that waits for one resource. Users take
// turns, and the work of one user keeps its order. Not thread-safe, so the
// owner's mutex guards this object.
class UserTurns {
 public:
  using Ticket = std::uint64_t;

  // Adds work of the user, after all earlier work of the same user.
  Ticket Add(std::uint32_t user) {
    waiting_.emplace(++last_ticket_, user);
    return last_ticket_;
  }

  // Returns the work of the user whose last turn is longest ago, among the work
  // that `may(ticket, user)` accepts.
  template <typename May>
  std::optional<Ticket> Next(const May& may) const {
    std::optional<Ticket> next;
    std::uint64_t next_turn = 0;
    for (const auto& [ticket, user] : waiting_) {
      const auto found = turns_.find(user);
      const std::uint64_t turn = found == turns_.end() ? 0 : found->second;
      if ((!next || turn < next_turn) && may(ticket, user)) {
        next = ticket;
        next_turn = turn;
      }
    }
    return next;
  }

  // Takes the work out of the queue, because its turn has come. Returns its
  // user.
  std::uint32_t Begin(Ticket ticket) {
    const std::uint32_t user = waiting_.extract(ticket).mapped();
    turns_[user] = ++last_turn_;
    return user;
  }
  // Takes the work out of the queue without a turn.
  void Leave(Ticket ticket) { waiting_.erase(ticket); }

  bool Contains(Ticket ticket) const { return waiting_.contains(ticket); }
  bool empty() const { return waiting_.empty(); }
  // Forgets the users' last turns. The owner calls it when nothing waits or
  // runs, so that users who have left take no memory.
  void Reset() { turns_.clear(); }

 private:
  Ticket last_ticket_ = 0;
  std::uint64_t last_turn_ = 0;
  std::map<Ticket, std::uint32_t> waiting_;       // the users
  std::map<std::uint32_t, std::uint64_t> turns_;  // the last of each user
};

}  // namespace mountd
