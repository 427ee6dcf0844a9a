// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <limits>

namespace mountd::exec {

// Names the user on whose behalf this thread's plans run, while the object
// lives, so that ExecutorPool can keep one user's plans from holding up
// another's. Objects of one thread nest, and the innermost one counts.
class PlanUser {
 public:
  // mountd itself, which counts as one more user. It is no uid (chown(2)).
  static constexpr std::uint32_t kMountd =
      std::numeric_limits<std::uint32_t>::max();

  explicit PlanUser(std::uint32_t uid) : outer_(current_) { current_ = uid; }
  ~PlanUser() { current_ = outer_; }
  PlanUser(const PlanUser&) = delete;
  PlanUser& operator=(const PlanUser&) = delete;

  static std::uint32_t Current() { return current_; }

 private:
  static inline thread_local std::uint32_t current_ = kMountd;
  const std::uint32_t outer_;
};

}  // namespace mountd::exec
