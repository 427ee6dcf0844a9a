// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string_view>

namespace mountd {

// The changes that a process makes outside itself, one step after the other.
// Tests count the steps, fail one, or end the process at one (tests/fault).
// Installed programs have no Steps.
class Steps {
 public:
  virtual ~Steps() = default;

  // Runs before the step. Returns 0, or the errno (for an RPC, its code) with
  // which the step fails instead of running.
  virtual int Begin(std::string_view step) = 0;
  // Runs right after the step, whether it succeeded or not.
  virtual void End() = 0;
};

}  // namespace mountd
