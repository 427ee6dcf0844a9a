// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/result.h"

namespace mountd::driver {

// Makes a symlink in a task's root file system before the task starts, such as
// "/data" with the text "/inbox/data" (InboxLink, TargetOfLink). `rootfs` is
// the directory's fd: the overlay as the task sees it, or an upper directory.
// Makes directories that are missing on the way (0755). The kernel resolves the
// image's symlinks as inside the task, so none leads out of `rootfs`. Ok if
// this link is there already. Replaces an empty directory by the link, because
// images have an empty directory for their volume. AlreadyExists if anything
// else is there.
// The caller checks the destination with CheckTaskMounts.
Result<void> PlaceLink(int rootfs, const std::string& destination,
                       const std::string& target);

}  // namespace mountd::driver
