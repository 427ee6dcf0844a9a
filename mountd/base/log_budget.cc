// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/log_budget.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace mountd {

void LogBudget::Refill(Account* account, double share,
                       Clock::time_point now) const {
  const std::chrono::duration<double> passed =
      now - std::exchange(account->since, now);
  account->left =
      std::min(bounds_.burst * share,
               account->left + passed.count() * bounds_.per_second * share);
}

// Drops the accounts of users whose budget is full again, because a new account
// would hold the same.
void LogBudget::DropFull(Clock::time_point now) {
  for (auto user = users_.begin(); user != users_.end();) {
    Refill(&user->second, 1, now);
    user = user->second.left < bounds_.burst ? std::next(user)
                                             : users_.erase(user);
  }
}

LogBudget::Verdict LogBudget::Take(std::uint32_t uid, Clock::time_point now) {
  if (users_.size() >= kMostUsers && !users_.contains(uid)) {
    DropFull(now);
  }
  if (users_.size() >= kMostUsers && !users_.contains(uid)) {
    return Verdict::kLeaveOut;
  }
  Account& user =
      users_.emplace(uid, Account{bounds_.burst, now}).first->second;
  Refill(&user, 1, now);
  Refill(&all_, bounds_.users, now);
  if (user.left < 1 || all_.left < 1) {
    ++user.left_out;
    return Verdict::kLeaveOut;
  }
  user.left -= 1;
  all_.left -= 1;
  const bool is_last = user.left < 1 || all_.left < 1;
  const bool tell = is_last && !std::exchange(user.told, true);
  // Once half of the budget is back, mountd logs the next shortage again.
  if (user.left >= bounds_.burst / 2) {
    user.told = false;
  }
  return tell ? Verdict::kLogLast : Verdict::kLog;
}

std::uint64_t LogBudget::TakeLeftOut(std::uint32_t uid) {
  const auto found = users_.find(uid);
  return found == users_.end() ? 0 : std::exchange(found->second.left_out, 0);
}

}  // namespace mountd
