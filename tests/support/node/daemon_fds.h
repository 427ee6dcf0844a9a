// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <string>

namespace mountd::testing {

// Open fds by daemon and kind of file: "mountd-exec socket", "mountd file". The
// largest number counts among several processes of one daemon, because the
// number of processes follows the load.
using DaemonFds = std::map<std::string, long>;

// Reads /proc/PID/fd (proc(5)) of each mountd, mountd-closer, mountd-exec,
// mountd-csi and csi-local that runs in this mount namespace.
DaemonFds TakeDaemonFds();

// Returns a line for each kind of fd of which a daemon has more in `after` than
// in `before`, by more than connections and idle executors account for; empty
// if there is none. This slack hides a leak of one fd until the operation that
// leaks has run a dozen times.
std::string MoreFds(const DaemonFds& before, const DaemonFds& after);

}  // namespace mountd::testing
