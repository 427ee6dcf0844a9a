// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/core.h"

namespace mountd::testing {

// One call of the API's: what it is, in text, and what it does.
struct PlannedCall {
  std::string method;
  std::string arguments;
  std::string strand;
  std::uint32_t uid = 0;
  std::function<Result<std::string>(Core&, const CallContext&, Strands&)> work;

  std::string Text() const { return method + " " + arguments; }
};

// The allocations of all sets: "web" and "db" are one user's, "api" another's.
// Volumes "v1" and "v2" of the plugin "nfs" are wanted by all of them.
extern const std::vector<std::string> kAllocations;
std::uint32_t OwnerOf(const std::string& allocation);

enum class Kinds {
  kOrdered,  // each has its effect at one moment, as others see it
  kAll,      // Reconcile, too, which visits one allocation after the other
};

// What was called before, one after the other, and what is called at once.
struct CallSet {
  std::vector<PlannedCall> before;
  std::vector<PlannedCall> at_once;  // 3 to 6

  static CallSet Draw(std::uint64_t seed, Kinds kinds);
  std::string Text() const;
};

// A core of which no thread of its own does anything for as long as a test
// lasts, with a healthy plugin "nfs", once `before` was called.
std::unique_ptr<Core> CoreAfter(const CallSet& set, Steps* steps = nullptr);

// "Ok", with what it answered, or the error's name.
std::string AnswerOf(const Result<std::string>& result);

// All that is recorded, and all there is, but for what is any of its kind:
// addresses, times, ids.
std::string StateOf(Core& core);
// What is recorded and not there, or there and not recorded; "": nothing.
std::string Contradiction(Core& core);
// What is owed is tried again and everything released. What is left: "".
std::string LeftAfterRelease(Core& core);

}  // namespace mountd::testing
