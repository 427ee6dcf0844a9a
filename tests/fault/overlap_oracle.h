// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/fault/overlap_choice.h"
#include "tests/fault/shared_steps.h"

namespace mountd::testing {

// One caller's view: its answer, and whether the call's effect was there once
// all answers were given. The effect is missing if another call has undone it.
struct Seen {
  std::string told;
  bool holds = true;  // true of all answers but "Ok"

  auto operator<=>(const Seen&) const = default;
};
using Outcome = std::vector<Seen>;  // one for each operation
std::string TextOf(const Outcome& outcome);

// Learns the answers that overlapping operations may get, by making the same
// calls one after the other, in each order, in the same world.
//
// Undisturbed calls must look as if they had been made in one of these orders
// (they are linearizable), or, if they are the same call, as one call that both
// have joined. No other answer is true, not even Busy. There are two
// exceptions. A call that does not wait for calls on the same object
// (Operation::looks_on) may get FailedPrecondition, because the object is being
// changed. While a tree is removed it belongs to root (Operation::takes_tree),
// so others get PermissionDenied.
//
// Once the first call is interrupted, it may get an answer that no interruption
// excuses only if it gets that answer without one, too. The others may get an
// answer of some order, the first call's answer if they had joined it, an
// answer that they did not get through (Unavailable, Busy, Aborted), and
// FailedPrecondition if the first call's effect matters to them, because they
// may find that effect half done. A call whose agent dies is not interrupted,
// so for all others nothing has happened.
class OverlapOracle {
 public:
  explicit OverlapOracle(std::vector<std::size_t> operations)
      : operations_(std::move(operations)),
        told_(operations_.size()),
        alone_(operations_.size()) {}

  // Learns the outcome of one of the orders.
  void Learn(const Outcome& outcome);
  // Learns the outcome of the operation without the first one.
  void LearnAlone(std::size_t operation, const Seen& seen) {
    alone_[operation] = seen;
    LearnAgain(operation, seen.told);
  }
  // Learns the answer of `operation` when it was called once more.
  void LearnAgain(std::size_t operation, const std::string& told) {
    told_[operation].insert(told);
  }

  // Returns what is impossible in the outcome, or "". `step` is where the first
  // operation was interrupted.
  std::string Contradiction(const Outcome& outcome, Sharing sharing, Then then,
                            const std::string& step) const;
  // True if the caller is done with that answer.
  bool IsFinal(std::size_t operation, const std::string& told) const {
    return told == "Ok" || told_[operation].contains(told);
  }

 private:
  std::string Orders() const;
  bool CameToNothing(std::size_t operation, const std::string& told) const;
  bool MetForTree(std::size_t operation, const Outcome& outcome,
                  Sharing sharing) const;
  bool LeftRemains(std::size_t operation, const Outcome& outcome,
                   Sharing sharing) const;
  bool HasJoined(std::size_t operation, const Outcome& outcome) const;
  bool SawChange(std::size_t operation, const Outcome& outcome,
                 const Outcome& order) const;
  bool IsAnOrder(const Outcome& outcome, Sharing sharing) const;
  bool IsSeen(std::size_t operation, const Seen& seen) const;

  const std::vector<std::size_t> operations_;
  std::set<Outcome> orders_;
  std::vector<std::set<std::string>> told_;  // in any order, by operation
  Outcome alone_;
};

}  // namespace mountd::testing
