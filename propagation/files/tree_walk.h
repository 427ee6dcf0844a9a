// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "propagation/ground/context.h"

namespace mountd::propagation {

// Bounds the work of one plan on a tree, so that other plans get their turn.
// The bounds are a number of entries, and also a time, because one large file
// may take long.
struct TreeBound {
  std::size_t entries = 0;
  std::chrono::milliseconds time{0};
};

// The rest of a bound.
class TreeBudget {
 public:
  explicit TreeBudget(const TreeBound& bound)
      : left_(bound.entries), until_(Clock::now() + bound.time) {}

  // Takes one entry. Returns false if the bound is used up.
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

// The position of a walk, for errors: the names below its top, as text.
class TreeTrail {
 public:
  explicit TreeTrail(std::string object) : object_(std::move(object)) {}

  // Record that the walk enters or leaves a directory.
  void Enter(const std::string& name) { names_.push_back(name); }
  void Leave() { names_.pop_back(); }

  // Returns a text such as "directory/mine/deep". The text is printable ASCII,
  // whatever names tasks give their files.
  std::string Described(const std::string& name) const;

  Error Failed(int err, const char* op, const std::string& name = {}) const;
  // Returns Busy, because a mount is there.
  Error AtMount(const char* op, const std::string& name) const;
  Error Refused(Code code, const char* op, const std::string& name,
                const std::string& why) const;

 private:
  std::string Text(const std::string& name) const;

  const std::string object_;
  std::vector<std::string> names_;
};

}  // namespace mountd::propagation
