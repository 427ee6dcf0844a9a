// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>

namespace mountd {

// Records why a call was allowed: the rules of the configuration that allowed
// it, for the call's log line. A denial is the call's error instead. The policy
// is asked in a call's name only if the call's answer depends on it.
//
// Thread-safe, because several threads may carry out a call.
class Decisions {
 public:
  // Records the rule that begins at this line of the configuration.
  void AllowedByRule(std::uint32_t line);
  // Records the authority that answered for the caller (Caller::authority).
  void AllowedBy(const std::string& authority);
  // Records that the call sees or uses what belongs to another user, because
  // its caller is an administrator.
  void UsedAsAdministrator(std::uint32_t owner);
  // Records the same for what belongs to all users.
  void UsedAllAsAdministrator();
  // Forgets the records, because they did not suffice.
  void Denied();
  // Returns "12,40" or "12,org.mountd1.release"; "" if no rule was asked.
  std::string Rules() const;
  // Returns the other users as "1000,1001", of more than kMostOthers only the
  // first and "..."; "all" after UsedAllAsAdministrator; "" if there are none.
  std::string Others() const;

  static constexpr std::size_t kMostOthers = 16;

 private:
  mutable std::mutex mutex_;
  std::set<std::uint32_t> lines_;   // mutex_
  std::string authority_;           // mutex_
  std::set<std::uint32_t> others_;  // mutex_; at most kMostOthers + 1
  bool used_all_ = false;           // mutex_
};

}  // namespace mountd
