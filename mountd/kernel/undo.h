// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "mountd/base/result.h"

// The two ends of a plan that makes something: its report, and its undo.
namespace mountd::exec {

// Reports a plan's outcome to mountd at the plan's end. A plan that makes
// something commits it only if the report succeeds. mountd has no record of a
// plan that it gave up, and would never remove the result.
template <typename State>
using Tell = std::function<Result<void>(const State&)>;

// Holds the steps that undo a plan if it fails half way. Runs them, the last
// one first, unless Commit was called. Declare it after everything that its
// steps refer to. Does not report a step that fails, because the next
// inspection of the object finds what is left.
class Undo {
 public:
  Undo() = default;
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  ~Undo() {
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      (*step)();
    }
  }
  void Add(std::function<void()> step) { steps_.push_back(std::move(step)); }
  void Commit() { steps_.clear(); }

 private:
  std::vector<std::function<void()>> steps_;
};

}  // namespace mountd::exec
