// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

// The process's limit of file descriptors (RLIMIT_NOFILE).
namespace mountd {

// As high as the process may have it.
void RaiseFdLimit();

// True when at most a quarter of the descriptors are free. Counts them in
// /proc/self/fd: for now and then.
bool IsShortOfFds();

}  // namespace mountd
