// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/result.h"

namespace mountd::csi_local {

// Leaves this process, and what it becomes, only the system calls that mkfs,
// e2fsck and resize2fs of Debian 12 and 13 need: descriptors, files that exist,
// memory, time. Any other answers EPERM, because libraries ask for some in
// passing. Needs no_new_privs. Internal if libseccomp or the kernel refuses.
Result<void> RestrictToolCalls();

}  // namespace mountd::csi_local
