// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "propagation/context.h"

namespace mountd::propagation {

// How much one plan does of a tree, so that none is long and others get their
// turn: a number of entries, and time, as one large file may take some.
struct TreeBound {
  std::size_t entries = 0;
  std::chrono::milliseconds time{0};
};

// What is left of a bound.
class TreeBudget {
 public:
  explicit TreeBudget(const TreeBound& bound)
      : left_(bound.entries), until_(Clock::now() + bound.time) {}

  // Takes one entry; false: there is none to take.
  bool Take() {
    if (left_ == 0 || Clock::now() >= until_) {
      return false;
    }
    --left_;
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::size_t left_;
  const Clock::time_point until_;
};

// Where a walk is, for its errors: names below its top, as text.
class TreeTrail {
 public:
  explicit TreeTrail(std::string object) : object_(std::move(object)) {}

  // The names of the directories that the walk is in.
  void Enter(const std::string& name) { names_.push_back(name); }
  void Leave() { names_.pop_back(); }

  // "directory/mine/deep": plain text, whatever tasks call their files.
  std::string Described(const std::string& name) const;

  Error Failed(int err, const char* op, const std::string& name = {}) const;
  // Busy: a mount is there.
  Error AtMount(const char* op, const std::string& name) const;
  Error Refused(Code code, const char* op, const std::string& name,
                const std::string& why) const;

 private:
  std::string Text(const std::string& name) const;

  const std::string object_;
  std::vector<std::string> names_;
};

}  // namespace mountd::propagation
