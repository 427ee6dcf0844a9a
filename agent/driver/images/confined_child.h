// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace mountd::driver {

// All that the child of RunConfined needs. The child allocates nothing and
// takes no lock, because a thread that the parent had at the fork may have held
// the lock.
struct ChildPlan {
  int user_namespace = -1;         // the child joins it
  const char* writable = nullptr;  // an absolute path; nullptr: none
  int inherited = -1;              // the program keeps this fd; -1: none
  std::uint64_t max_file_bytes = 0;
  char* const* argv = nullptr;
  char* const* environment = nullptr;
  int null_fd = -1;    // becomes stdin
  int out_fd = -1;     // becomes stdout
  int error_fd = -1;   // becomes stderr
  int report_fd = -1;  // gets a ConfinedReport if a step fails
  pid_t parent = 0;
};

struct ConfinedReport {
  int step = 0;
  int err = 0;
};

// Returns the name of a step, for an error.
const char* ChildStepName(int step);

// Enters the namespaces, drops the rights that the program may not have, and
// executes the program of `plan`. Never returns. Async-signal-safe
// (signal-safety(7)).
[[noreturn]] void BecomeConfined(const ChildPlan& plan);

}  // namespace mountd::driver
