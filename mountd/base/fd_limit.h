// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

// The process's limit of file descriptors (RLIMIT_NOFILE).
namespace mountd {

// Raises the soft limit to the hard limit.
void RaiseFdLimit();

// Returns true when at most a quarter of the descriptors are free. Not for hot
// paths, because it counts the entries of /proc/self/fd.
bool IsShortOfFds();

}  // namespace mountd
