// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>

namespace mountd {

// Records why a call was allowed: the rules of the configuration that allowed
// it, for the call's log line. Has no record of a denial, because the call's
// error says why. Records nothing for checks that do not affect the call's
// answer.
//
// Thread-safe, because several threads may carry out a call.
class Decisions {
 public:
  // Records the rule that begins at this line of the configuration.
  void AllowedByRule(std::uint32_t line);
  // Records the authority that answered for the caller (Caller::authority).
  void AllowedBy(const std::string& authority);
  // Records that the caller saw or used an object of another user, because the
  // caller is an administrator.
  void UsedAsAdministrator(std::uint32_t owner);
  // Records that the caller, an administrator, saw or used objects of all
  // users.
  void UsedAllAsAdministrator();
  // Forgets all records, because the policy has denied the call.
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
