// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string_view>

namespace mountd {

// What a process does to the world outside of it, one step after the other.
// Tests count the steps, fail one, or end the process at one (tests/fault);
// what is installed has none.
class Steps {
 public:
  virtual ~Steps() = default;

  // Before the step. 0, or the errno (of an RPC: its code) that it fails with
  // instead of being done.
  virtual int Begin(std::string_view step) = 0;
  // Right after it, whatever came of it.
  virtual void End() = 0;
};

}  // namespace mountd
