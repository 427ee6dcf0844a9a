// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

namespace mountd::shim {

struct ForkedInto {
  pid_t pid = -1;  // as of fork(2): 0 in the child, and -1 with an errno
  // False: the child must call JoinCgroup, because the kernel could not start
  // the child in the cgroup.
  bool joined = false;
};

// Forks a child that begins in the cgroup of this directory of cgroup v2. A
// process that moves itself waits for an RCU grace period of the kernel, which
// takes 5 to 20 ms, and a new process does not. -1: the child stays in the
// caller's cgroup. The child may call async-signal-safe functions alone.
ForkedInto ForkIntoCgroup(int cgroup);

// Moves the calling process. Async-signal-safe. False with an errno.
bool JoinCgroup(int cgroup);

}  // namespace mountd::shim
