// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cerrno>
#include <string>

#include "mountd/base/result.h"
#include "mountd/kernel/content_calls.h"
#include "mountd/kernel/file_calls.h"
#include "mountd/kernel/mount_calls.h"
#include "mountd/kernel/mount_namespace_calls.h"
#include "mountd/kernel/network_calls.h"
#include "mountd/kernel/process_calls.h"
#include "mountd/kernel/sys.h"
#include "mountd/kernel/undo.h"

// The seam between the executor and the kernel. Every system call that changes
// anything, and every one whose answer decides anything, is a method here.
// RealKernel makes the calls. Tests wrap it to count calls or to fail the k-th.
namespace mountd::exec {

// All calls, one interface for each subject. FileCalls comes first, because the
// calls of the first base cost no adjustment of `this`, and plans call files
// most.
class Kernel : public FileCalls,
               public MountCalls,
               public ContentCalls,
               public MountNamespaceCalls,
               public ProcessCalls,
               public NetworkCalls {};

// Locks by FileCalls::Lock. Busy, with the reason, if an earlier plan holds the
// lock.
inline Result<void> Locked(FileCalls& kernel, int fd,
                           const std::string& object) {
  const Sys<void> locked = kernel.Lock(fd);
  if (!locked && locked.error() == EWOULDBLOCK) {
    return MakeError(
        Code::kBusy, "flock", object,
        "an earlier plan still works on this object; call again later");
  }
  return Named(locked, "flock", object);
}

}  // namespace mountd::exec
