// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/result.h"

namespace mountd::csi {

// Restricts this process and its threads, for good (seccomp(2)), to reading,
// writing, waiting, memory, and the sockets they have. Calls that libraries
// make in passing, such as opening a file or a socket, fail with EACCES,
// because libraries work without them. Calls that only an intruder makes
// (running a program, another process's memory, mounting, code made at run
// time) end the process.
//
// Call after GiveUpPrivileges, before the first thread. In a build with
// sanitizers, whose runtime needs more, all other calls are allowed.
Result<void> RestrictSystemCalls();

// Bounds the memory of the process, stacks included. A process that is made to
// take more ends, which only delays the calls in flight. Does nothing in a
// build with sanitizers.
Result<void> RestrictMemory();

}  // namespace mountd::csi
