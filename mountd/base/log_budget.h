// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <map>

namespace mountd {

// Bounds the lines of one kind that callers may cause in the log. The journal
// drops all of a service's lines after 10,000 in 30 s (journald.conf(5),
// RateLimitBurst=). So a user with many refused calls could hide the lines
// about every user's calls.
//
// Each user has `burst` lines and gets `per_second` more with time. All users
// together have as much as `users` users, because one user can have tens of
// thousands of subordinate ids. Runs on one thread.
class LogBudget {
 public:
  using Clock = std::chrono::steady_clock;
  struct Bounds {
    double burst = 100;
    double per_second = 2;
    double users = 10;
  };
  enum class Verdict {
    kLog,
    kLogLast,  // log it, and say that later lines are left out
    kLeaveOut,
  };

  explicit LogBudget(const Bounds& bounds) : bounds_(bounds) {
    all_.left = bounds.burst * bounds.users;
  }

  Verdict Take(std::uint32_t uid, Clock::time_point now);
  // Returns how many lines of the user were left out since the last call; 0 if
  // the user's account was dropped, because nothing was logged for long.
  std::uint64_t TakeLeftOut(std::uint32_t uid);

 private:
  static constexpr std::size_t kMostUsers = 1024;
  struct Account {
    double left = 0;
    Clock::time_point since{};
    std::uint64_t left_out = 0;
    bool told = false;  // whether the log says that lines are left out
  };

  void Refill(Account* account, double share, Clock::time_point now) const;
  void DropFull(Clock::time_point now);

  const Bounds bounds_;
  Account all_;
  std::map<std::uint32_t, Account> users_;
};

}  // namespace mountd
