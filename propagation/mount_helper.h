// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/config.h"

namespace mountd::propagation {

// Mounts what root declared at `path`, nosuid and nodev, through libmount: the
// kernel's own types by mount(2), images by a loop device that goes with the
// mount, the others by their /sbin/mount.<type>. May take for ever: to be
// called in a process that may be killed. Answers what MountOutcome takes.
int MountByLibmount(const FilesystemConfig& filesystem,
                    const std::string& path);

// `status` is what MountByLibmount answered.
Result<void> MountOutcome(int status, const FilesystemConfig& filesystem,
                          const std::string& object);

}  // namespace mountd::propagation
