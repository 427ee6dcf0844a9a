// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <map>

namespace mountd {

// How many lines of one kind callers may cause in the log. The journal drops
// all of a service's lines after 10,000 in 30 s (journald.conf(5),
// RateLimitBurst=), so that who is refused often enough would hide what others
// do, and what he does himself.
//
// Each user has `burst` lines, and `per_second` more as time goes by; all users
// together as much as `users` of them, as one can have tens of thousands of
// subordinate ids. Lives on one thread.
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
    kLogLast,  // and say that others are left out from now on
    kLeaveOut,
  };

  explicit LogBudget(const Bounds& bounds) : bounds_(bounds) {
    all_.left = bounds.burst * bounds.users;
  }

  Verdict Take(std::uint32_t uid, Clock::time_point now);
  // How many lines of the user were left out since this was asked last; 0 if
  // nothing was heard of the user for long.
  std::uint64_t TakeLeftOut(std::uint32_t uid);

 private:
  static constexpr std::size_t kMostUsers = 1024;
  struct Account {
    double left = 0;
    Clock::time_point since{};
    std::uint64_t left_out = 0;
    bool told = false;  // that lines are left out
  };

  void Refill(Account* account, double share, Clock::time_point now) const;
  void DropFull(Clock::time_point now);

  const Bounds bounds_;
  Account all_;
  std::map<std::uint32_t, Account> users_;
};

}  // namespace mountd
