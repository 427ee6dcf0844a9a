// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>

namespace mountd {

// Why a call was allowed what it did: the rules of the configuration that said
// so, for the line that is logged of the call. A denial is its error.
//
// Thread-safe: a call may be carried out by several threads.
class Decisions {
 public:
  // The rule that begins at this line of the configuration.
  void AllowedByRule(std::uint32_t line);
  // "12,40"; "" if no rule was asked.
  std::string Rules() const;

 private:
  mutable std::mutex mutex_;
  std::set<std::uint32_t> lines_;  // mutex_
};

}  // namespace mountd
