// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/fault/overlap_oracle.h"

#include <algorithm>

#include "tests/fault/operations.h"
#include "tests/fault/plausible_errors.h"

namespace mountd::testing {
namespace {

StepAction ActionOf(Then then) {
  return then == Then::kFails ? StepAction::kFail : StepAction::kCount;
}

}  // namespace

std::string TextOf(const Outcome& outcome) {
  std::string text;
  for (const Seen& seen : outcome) {
    text += (text.empty() ? "" : ", ") + seen.told + (seen.holds ? "" : "!");
  }
  return text;
}

void OverlapOracle::Learn(const Outcome& outcome) {
  orders_.insert(outcome);
  for (std::size_t i = 0; i < outcome.size(); ++i) {
    told_[i].insert(outcome[i].told);
  }
}

std::string OverlapOracle::Orders() const {
  std::string text = "one after the other:";
  for (const Outcome& order : orders_) {
    text += " (" + TextOf(order) + ")";
  }
  return text;
}

// True if a call may get this answer because the end of a process has ended the
// call, or because it found what a failure left half done. "live" is
// Reconcile's answer for an allocation that could not be searched.
bool OverlapOracle::CameToNothing(std::size_t operation,
                                  const std::string& told) const {
  const bool depends =
      std::any_of(orders_.begin(), orders_.end(), [&](const Outcome& order) {
        return order[operation] != Seen{"Ok", true};
      });
  return told == "Unavailable" || told == "Busy" || told == "Aborted" ||
         told == "live" || told == "owed" ||
         (told == "FailedPrecondition" && depends);
}

bool OverlapOracle::IsSeen(std::size_t operation, const Seen& seen) const {
  return std::any_of(orders_.begin(), orders_.end(), [&](const Outcome& order) {
    return order[operation] == seen;
  });
}

// True if the operation found the tree of its allocation taken by another call.
// Also true if it is the one that took the tree, and so the only one that
// changed the tree.
bool OverlapOracle::MetForTree(std::size_t operation, const Outcome& outcome,
                               Sharing sharing) const {
  const auto takes = [&](std::size_t i) {
    return AllOperations()[operations_[i]].takes_tree;
  };
  for (std::size_t i = 0; i < outcome.size(); ++i) {
    const std::size_t denied = takes(operation) ? i : operation;
    if (sharing == Sharing::kAllocation && i != operation &&
        takes(operation) != takes(i) &&
        outcome[denied].told == "PermissionDenied") {
      return !takes(operation) || outcome[operation] == Seen{"Ok", true};
    }
  }
  return false;
}

// True if a ChownTree came after a removal of the same tree that has failed.
// Such a removal leaves directories that it has made root's, and a ChownTree
// leaves what is root's.
bool OverlapOracle::LeftRemains(std::size_t operation, const Outcome& outcome,
                                Sharing sharing) const {
  if (sharing != Sharing::kAllocation ||
      AllOperations()[operations_[operation]].name != "ChownTree") {
    return false;
  }
  for (std::size_t i = 0; i < operation; ++i) {
    if (AllOperations()[operations_[i]].name == "RemoveTree" &&
        outcome[i].told != "Ok") {
      return outcome[operation].told == "Ok";
    }
  }
  return false;
}

// True if the operation is the same call as an earlier one, with the same
// answer.
bool OverlapOracle::HasJoined(std::size_t operation,
                              const Outcome& outcome) const {
  for (std::size_t i = 0; i < operation; ++i) {
    if (operations_[i] == operations_[operation] &&
        outcome[i] == outcome[operation]) {
      return true;
    }
  }
  return false;
}

// True if the operation met another call's change of what it looks at, and that
// matters to its answer in this order.
bool OverlapOracle::SawChange(std::size_t operation, const Outcome& outcome,
                              const Outcome& order) const {
  return AllOperations()[operations_[operation]].looks_on &&
         outcome[operation].told == "FailedPrecondition" &&
         order[operation] != Seen{"Ok", true};
}

bool OverlapOracle::IsAnOrder(const Outcome& outcome, Sharing sharing) const {
  return std::any_of(orders_.begin(), orders_.end(), [&](const Outcome& order) {
    for (std::size_t i = 0; i < outcome.size(); ++i) {
      const bool joined =
          sharing == Sharing::kAllocation && HasJoined(i, outcome);
      if (order[i] != outcome[i] && !joined && !SawChange(i, outcome, order) &&
          !MetForTree(i, outcome, sharing)) {
        return false;
      }
    }
    return true;
  });
}

std::string OverlapOracle::Contradiction(const Outcome& outcome,
                                         Sharing sharing, Then then,
                                         const std::string& step) const {
  if (then == Then::kGoesOn) {
    if (IsAnOrder(outcome, sharing)) {
      return "";
    }
    return TextOf(outcome) + "; " + Orders();
  }
  for (std::size_t i = 0; i < outcome.size(); ++i) {
    const Seen& seen = outcome[i];
    // Nobody got the answer of an agent that has died.
    const bool unheard = i == 0 && then == Then::kAgentDies;
    const bool cut_off = i == 0 || HasJoined(i, outcome);
    // The outcome is as if the cut had left nothing of the first operation.
    const bool alone = seen == Seen{"Ok", true} || (i > 0 && seen == alone_[i]);
    const bool excused = seen.holds && then != Then::kAgentDies &&
                         (cut_off ? IsTruthful(seen.told, ActionOf(then), step)
                                  : CameToNothing(i, seen.told));
    const bool saw = std::any_of(
        orders_.begin(), orders_.end(),
        [&](const Outcome& order) { return SawChange(i, outcome, order); });
    if (!unheard && !alone && !excused && !saw && !IsSeen(i, seen) &&
        !MetForTree(i, outcome, sharing) && !LeftRemains(i, outcome, sharing)) {
      return std::to_string(i) + " of " + TextOf(outcome) + "; " + Orders();
    }
  }
  return "";
}

}  // namespace mountd::testing
