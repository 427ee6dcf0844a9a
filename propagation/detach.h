// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/base.h"

namespace mountd::propagation {

// Unmounts the target with the mounts below it, if it is still
// `plan.mount_id`, and removes its mountpoint and an empty task directory.
// Busy while it is used, then perhaps without some of the mounts that were
// below it, unless the plan's mode says more; but gone with them, used or not,
// if the server of their file system is dead, as no path leads to them any
// more. A bidirectional target first leaves its peer group, so that mounts
// below it stay in the source.
Result<void> Detach(const Context& context, const exec::DetachPlan& plan);

// Unmounts the top mount at (dir, name), which is `mount_id`, with those below;
// if it is used, as `mode` says.
Result<void> UnmountTop(const Context& context, int dir,
                        const std::string& name, std::uint64_t mount_id,
                        exec::UnmountMode mode, const std::string& object);

// The part of it that is done at (task, name) once it is known to be `file`:
// the mount, if it is one, and its mountpoint.
Result<void> DetachFile(const Context& context, int task,
                        const std::string& name, const exec::FileFacts& file,
                        exec::UnmountMode mode, const std::string& object);

}  // namespace mountd::propagation
