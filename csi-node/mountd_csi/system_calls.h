// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/result.h"

namespace mountd::csi {

// From here on this process and its threads may read, write, wait, and use
// memory and the sockets they have; nothing else, for good (seccomp(2)). What
// libraries merely ask for, such as a file or a socket, is refused as EACCES,
// as they can do without; what only an intruder would do (running a program,
// another process's memory, mounting, code made at run time) ends the process.
//
// After GiveUpPrivileges, before the first thread. In a build with sanitizers,
// whose runtime needs more, all else is allowed.
Result<void> RestrictSystemCalls();

// Bounds what the process may have of memory, stacks included: one that is led
// to take more ends, and only calls in flight are delayed. Not in a build with
// sanitizers.
Result<void> RestrictMemory();

}  // namespace mountd::csi
