// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>

namespace mountd {

// Why a call was allowed what it did: the rules of the configuration that said
// so, for the line that is logged of the call. A denial is its error. Whoever
// asks the policy in a call's name does so only if the answer to it depends on
// that.
//
// Thread-safe: a call may be carried out by several threads.
class Decisions {
 public:
  // The rule that begins at this line of the configuration.
  void AllowedByRule(std::uint32_t line);
  // Who answered for the caller (Caller::authority).
  void AllowedBy(const std::string& authority);
  // Whatever was allowed before, it was not enough.
  void Denied();
  // "12,40", "12,org.mountd1.release"; "" if no rule was asked.
  std::string Rules() const;

 private:
  mutable std::mutex mutex_;
  std::set<std::uint32_t> lines_;  // mutex_
  std::string authority_;          // mutex_
};

}  // namespace mountd
