// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <string>

namespace mountd::testing {

// Open fds by daemon and kind of file: "mountd-exec socket", "mountd file". Of
// several processes of one daemon the largest counts, because their number
// follows the load.
using DaemonFds = std::map<std::string, long>;

// Reads /proc/PID/fd (proc(5)) of mountd, mountd-closer, mountd-exec,
// mountd-csi and csi-local, as far as they run in this mount namespace.
DaemonFds TakeDaemonFds();

// Empty, or a line for each kind of fd of which a daemon has more in `after`
// than in `before`, by more than connections and idle executors account for. A
// leak of one fd in an operation is seen when the operation has run a dozen
// times.
std::string MoreFds(const DaemonFds& before, const DaemonFds& after);

}  // namespace mountd::testing
