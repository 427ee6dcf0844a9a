// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

// The process's limit of file descriptors (RLIMIT_NOFILE).
namespace mountd {

// As high as the process may have it.
void RaiseFdLimit();

// True when fewer than a quarter of the descriptors are free. Of a process that
// has closed none below its highest, as one that leaks, this is exact; of
// others it says so later.
bool IsShortOfFds();

}  // namespace mountd
