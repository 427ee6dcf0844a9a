// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "netns/cni/cgroup.h"
#include "netns/cni/deadline.h"

namespace mountd::cni {

struct ChildSpec {
  std::string program;
  // The whole environment, such as "CNI_COMMAND=ADD".
  std::vector<std::string> environment;
  std::string input;
  std::size_t max_output = 0;
};

struct ChildOutcome {
  enum class End {
    kExited,         // `status` is the exit status
    kKilled,         // by the signal `status`, which we did not send
    kDeadline,       // we killed it at the deadline
    kTooMuchOutput,  // we killed it because of its output
    kStopped,        // we killed it because this process must end
  };
  End end = End::kExited;
  int status = 0;
  std::string out;
  // The beginning of stderr.
  std::string err;
  // True if the child, or a process that it started, does not end after
  // SIGKILL.
  bool stuck = false;
};

// The exit status of a child that could not execute its program.
inline constexpr int kNotExecuted = 127;

// Runs a program to its end: in a session of its own, in /, with umask 022 and
// default signals, with no fd but the standard ones, and in the cgroup if there
// is one. The kernel kills it when this process dies. Before this returns, it
// kills every process that the program started; so this process may have no
// other child, and the cgroup no other process. Call AdoptOrphans before. A
// readable `stop` ends the program. Internal if no process can be made.
Result<ChildOutcome> RunChild(const ChildSpec& spec, const PluginCgroup& cgroup,
                              const Deadline& deadline, int stop);

}  // namespace mountd::cni
