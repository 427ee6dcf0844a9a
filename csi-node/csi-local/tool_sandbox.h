// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/result.h"

namespace mountd::csi_local {

// The fd of the file that a tool works on.
inline constexpr int kToolFd = 3;

// The first argument that makes csi-local confine itself and become the tool
// that the other arguments name.
inline constexpr char kRunToolOption[] = "--run-tool";
// The environment variable with the pid of the csi-local that starts a tool.
// The tool ends with that process.
inline constexpr char kToolStarter[] = "CSI_LOCAL_PID";

// Becomes the program argv[0], a path, which may parse hostile data. Runs it as
// a user of its own that owns no file, without any capability or a way to get
// one, and in mount, network, IPC and UTS namespaces of its own with all mounts
// read-only. The program can write no file larger than kToolFd's, and can only
// make system calls that read files, write descriptors and manage memory. Only
// a single-threaded process may call this. Returns only if a step fails; the
// process must then end, because it is half confined.
Error BecomeTool(char* const* argv);

}  // namespace mountd::csi_local
