// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/result.h"

namespace mountd::driver {

// Makes a symlink in a task's root file system before the task starts, such as
// "/data" with the text "/inbox/data" (InboxLink, TargetOfLink). `rootfs` is
// the directory's fd: the overlay as the task sees it, or an upper directory.
// Makes directories that are missing on the way (0755). Symlinks of the image
// lead to where they lead inside the task, never out of `rootfs`. Success if
// the link is there. Puts the link in the place of an empty directory, because
// images have one for their volume. AlreadyExists if anything else is there.
// The caller checks the destination with CheckTaskMounts.
Result<void> PlaceLink(int rootfs, const std::string& destination,
                       const std::string& target);

}  // namespace mountd::driver
