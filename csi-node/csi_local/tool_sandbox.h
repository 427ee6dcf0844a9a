// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/result.h"

namespace mountd::csi_local {

// The file that a tool works on.
inline constexpr int kToolFd = 3;

// csi-local's first argument when it is to confine itself, and to become the
// tool that the others name.
inline constexpr char kRunToolOption[] = "--run-tool";
// The environment's variable with the pid of the csi-local that starts a tool,
// and with which the tool ends.
inline constexpr char kToolStarter[] = "CSI_LOCAL_PID";

// Becomes the program argv[0], of a path, which parses what may be hostile: as
// a user of its own that owns no file, without a capability and without a way
// to get one, in mount, network, IPC and UTS namespaces of its own, all mounts
// read-only, no file larger than kToolFd's, and with only the system calls that
// read files, write descriptors and manage memory. Single-threaded callers
// only. Returns only if something of that fails; the process must end then,
// because it is half confined.
Error BecomeTool(char* const* argv);

}  // namespace mountd::csi_local
