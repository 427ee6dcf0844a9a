// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "mountd/base/unique_fd.h"

namespace mountd::driver::testing {

// A process that ends before one of its steps. A step is a system call that
// changes something outside of the process.
struct TracedStep {
  // The process's name: the last part of argv[0], and "-" and argv[1] for the
  // second program of a runtime ("runc-init"). A child that has not yet become
  // another program has its parent's name and "-child" ("driver-child").
  std::string program{};
  std::string call{};  // such as "mount"
  int nth = 0;         // of all calls of that name by such processes; 0: none
};

struct TracedSteps {
  std::map<std::string, int> calls{};  // how often each was made
  bool killed = false;
};

// Owns a process of root's that traces (ptrace(2)) a process and all that come
// from it, among them set-user-ID programs and programs that make system calls
// without libc, as Go's do. A traced process goes on when the tracing ends.
class Tracer {
 public:
  // Starts the process. Only root may.
  Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // Returns when `process` and the `others` are traced. False if one cannot be.
  // The others have one thread each.
  bool Begin(pid_t process, const std::vector<pid_t>& others,
             const TracedStep& step) const;
  // Returns the steps once that process has ended.
  TracedSteps End() const;

 private:
  UniqueFd socket_;
};

// The name of Begin's `process`.
inline constexpr char kTracedDriver[] = "driver";

}  // namespace mountd::driver::testing
