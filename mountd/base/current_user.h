// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <limits>

namespace mountd {

// Names the user on whose behalf this thread works, while the object lives, so
// that one user's work in a queue does not hold up another's (UserTurns).
// Objects of one thread nest, and the innermost one counts.
class CurrentUser {
 public:
  // Stands for mountd itself, which takes turns like one more user. No user has
  // this uid, because chown(2) reads it as "unchanged".
  static constexpr std::uint32_t kMountd =
      std::numeric_limits<std::uint32_t>::max();

  explicit CurrentUser(std::uint32_t uid) : outer_(current_) { current_ = uid; }
  ~CurrentUser() { current_ = outer_; }
  CurrentUser(const CurrentUser&) = delete;
  CurrentUser& operator=(const CurrentUser&) = delete;

  static std::uint32_t Get() { return current_; }

 private:
  static inline thread_local std::uint32_t current_ = kMountd;
  const std::uint32_t outer_;
};

}  // namespace mountd
