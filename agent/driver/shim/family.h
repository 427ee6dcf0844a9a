// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

namespace mountd::shim {

// Kills a child that the shim has not reaped yet, and all that the child has
// begun: its descendants, and the session that the runtime made for the child.
// Leaves out a session that the shim or the task's first process has. The child
// stays a zombie meanwhile, so no other process gets its pid or session.
void KillFamily(pid_t pid, pid_t init);

}  // namespace mountd::shim
