// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/config/config.h"

namespace mountd::propagation {

// Mounts at `path`, nosuid and nodev, the file system that root declared. Uses
// libmount: the kernel's own types by mount(2), images by a loop device that
// goes with the mount, other types by their /sbin/mount.<type>. Returns a
// status for MountOutcome. May never return, so call it in a process that can
// be killed.
int MountByLibmount(const FilesystemConfig& filesystem,
                    const std::string& path);

// Returns the result of a MountByLibmount that returned `status`.
Result<void> MountOutcome(int status, const FilesystemConfig& filesystem,
                          const std::string& object);

}  // namespace mountd::propagation
