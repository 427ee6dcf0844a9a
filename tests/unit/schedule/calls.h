// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/fakes/core.h"

namespace mountd::testing {

// One call of the API, as text and as a function.
struct PlannedCall {
  std::string method;
  std::string arguments;
  std::string strand;
  std::uint32_t uid = 0;
  std::function<Result<std::string>(Core&, const CallContext&, Strands&)> work;

  std::string Text() const { return method + " " + arguments; }
};

// The allocations of all sets: "web" and "db" belong to one user, "api" to
// another. All of them want the volumes "v1" and "v2" of the plugin "nfs".
extern const std::vector<std::string> kAllocations;
std::uint32_t OwnerOf(const std::string& allocation);

enum class Kinds {
  kOrdered,  // each takes effect at one moment, as others see it
  kAll,      // also Reconcile, which visits one allocation after the other
};

// The calls that are made first, one after the other, and the calls that are
// made at once.
struct CallSet {
  std::vector<PlannedCall> before;
  std::vector<PlannedCall> at_once;  // 3 to 6

  static CallSet Draw(std::uint64_t seed, Kinds kinds);
  std::string Text() const;
};

// Returns a core with a healthy plugin "nfs" after the calls of `before`. No
// thread of the core's own does anything while a test runs.
std::unique_ptr<Core> CoreAfter(const CallSet& set, Steps* steps = nullptr);

// Returns "Ok" with the answer, or the error's name.
std::string AnswerOf(const Result<std::string>& result);

// Returns all records and all objects, without values that may be any:
// addresses, times and ids.
std::string StateOf(Core& core);
// Returns what is recorded and not there, or there and not recorded; or "".
std::string Contradiction(Core& core);
// Retries pending tear-downs, and releases everything. Returns what is left, or
// "".
std::string LeftAfterRelease(Core& core);

}  // namespace mountd::testing
