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
  // All of it: "CNI_COMMAND=ADD".
  std::vector<std::string> environment;
  std::string input;
  std::size_t max_output = 0;
};

struct ChildOutcome {
  enum class End {
    kExited,         // `status` is its exit status
    kKilled,         // by the signal `status`, which was not ours
    kDeadline,       // we killed it
    kTooMuchOutput,  // we killed it
    kStopped,        // we killed it because we are to end
  };
  End end = End::kExited;
  int status = 0;
  std::string out;
  // The beginning.
  std::string err;
  // It, or what it started, does not die.
  bool stuck = false;
};

// The exit status of a child whose program could not be executed.
inline constexpr int kNotExecuted = 127;

// Runs a program to its end: in a session of its own, in /, with an umask of
// 022 and the default signals, without any fd but the standard ones, killed
// when this process dies, in the cgroup if there is one. Whatever it started is
// killed, too, before this returns, so no other child of this process may be
// there, nor anything else in the cgroup; call AdoptOrphans before. A readable
// `stop` ends it. Internal if there is no process to be had.
Result<ChildOutcome> RunChild(const ChildSpec& spec, const PluginCgroup& cgroup,
                              const Deadline& deadline, int stop);

}  // namespace mountd::cni
