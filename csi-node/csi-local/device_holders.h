// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <string>

namespace mountd::csi_local {

// Names the processes that have a block device open, or a mount of it in their
// mount namespace, for a message: "process 12 (cat), process 13 (sh)". Holders
// without a process are missing: a mount, a mapping, another device on top.
// Looks only at this process's pid namespace, and makes no file system answer.
std::string DescribeHolders(dev_t device);

}  // namespace mountd::csi_local
