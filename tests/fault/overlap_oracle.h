// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/fault/overlap_choice.h"
#include "tests/fault/shared_steps.h"

namespace mountd::testing {

// What one caller saw: what it was told, and whether that had come about once
// all had been told; it had not if another's call has undone it.
struct Seen {
  std::string told;
  bool holds = true;  // of all but "Ok"

  auto operator<=>(const Seen&) const = default;
};
using Outcome = std::vector<Seen>;  // of each operation
std::string TextOf(const Outcome& outcome);

// What operations that overlap may answer. It is learnt by making the same
// calls one after the other, in each order, in the same world.
//
// Calls that nothing disturbs have to look as if they had been made in one of
// these orders (they are linearizable), or, of the same call, as one that both
// have joined. Nothing else is true: not even Busy. But one that does not wait
// for what is done to the same thing (Operation::looks_on) may be told that it
// is being changed: FailedPrecondition. And while a tree is removed it is
// root's (Operation::takes_tree): PermissionDenied.
//
// Once the first is cut off, it may be told what no cut is an excuse for only
// if it is told that without one, too. The others may be told what they are in
// some order, what the first is, if they had joined it, that they did not get
// through (Unavailable, Busy, Aborted), and FailedPrecondition, if it matters
// to them what the first has done: they may find that half-done. One whose
// agent dies is not cut off: to all others nothing has happened.
class OverlapOracle {
 public:
  explicit OverlapOracle(std::vector<std::size_t> operations)
      : operations_(std::move(operations)),
        told_(operations_.size()),
        alone_(operations_.size()) {}

  // One of the orders came out so.
  void Learn(const Outcome& outcome);
  // It came out so without the first.
  void LearnAlone(std::size_t operation, const Seen& seen) {
    alone_[operation] = seen;
    LearnAgain(operation, seen.told);
  }
  // `operation` was told so when it was called once more.
  void LearnAgain(std::size_t operation, const std::string& told) {
    told_[operation].insert(told);
  }

  // What of it cannot be, or "". `step`: where the first one was cut off.
  std::string Contradiction(const Outcome& outcome, Sharing sharing, Then then,
                            const std::string& step) const;
  // Whether that is an answer with which its caller is done.
  bool IsFinal(std::size_t operation, const std::string& told) const {
    return told == "Ok" || told_[operation].contains(told);
  }

 private:
  std::string Orders() const;
  bool CameToNothing(std::size_t operation, const std::string& told) const;
  bool MetForTree(std::size_t operation, const Outcome& outcome,
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
