// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/result.h"

namespace mountd::driver {

// Makes a symlink in a task's root file system before the task starts, such as
// "/data" with the text "/inbox/data" (InboxLink, TargetOfLink). `rootfs` is an
// fd of the root directory: of the overlay that the task sees, or of the
// overlay's upper directory. An upper directory does not show what the image
// has, so the caller resolves the image's symlinks first, and the link hides
// whatever the image has there. Makes directories that are missing on the way
// (0755). No symlink in `rootfs` leads out of `rootfs`. Ok if this link is
// there already. Replaces an empty directory by the link, because images have
// an empty directory for their volume. AlreadyExists if `rootfs` itself has
// anything else there. The caller checks all destinations with CheckTaskMounts.
Result<void> PlaceLink(int rootfs, const std::string& destination,
                       const std::string& target);

}  // namespace mountd::driver
