// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

namespace mountd::shim {

// Kills a child of the shim, which the shim has not waited for, and what the
// child has begun: its children, theirs, and the session that the runtime gave
// it, which neither the shim nor the task's first process has. The child stays
// a zombie meanwhile, so the numbers of process and session stay its own.
void KillFamily(pid_t pid, pid_t init);

}  // namespace mountd::shim
