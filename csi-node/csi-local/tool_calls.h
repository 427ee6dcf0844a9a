// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/result.h"

namespace mountd::csi_local {

// Restricts this process, and the program that it becomes, to the system calls
// that mkfs, e2fsck and resize2fs of Debian 12 and 13 need: descriptors,
// existing files, memory, time. All other calls return EPERM, because libraries
// make some of them in passing. Needs no_new_privs. Internal if libseccomp or
// the kernel refuses.
Result<void> RestrictToolCalls();

}  // namespace mountd::csi_local
