// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/ground/base.h"

namespace mountd::propagation {

// Unmounts the target if it is still `plan.mount_id`, with the mounts below it.
// Removes its mountpoint, and the task directory if that is empty. A
// bidirectional target first leaves its peer group, so that the mounts below it
// stay in the source. A target that is gone already is success.
//
// Busy while the target is in use, unless the plan's mode detaches it all the
// same; some mounts below it may then be gone. A bidirectional target then
// joins its peer group again, if the kernel allows it; the mounts below it that
// are left stay private. FailedPrecondition if another mount is there. If the
// server of a file system below is dead, the target and all mounts below it are
// detached even while in use, because no path leads to them any more.
Result<void> Detach(const Context& context, const exec::DetachPlan& plan);

// Unmounts the top mount at (dir, name), which must be `mount_id`, with the
// mounts below it. `mode` says how if the mount is in use.
Result<void> UnmountTop(const Context& context, int dir,
                        const std::string& name, std::uint64_t mount_id,
                        exec::UnmountMode mode, const std::string& object);

// Unmounts and removes (task, name), which the caller knows to be `file`: the
// mount, if `file` is one, and its mountpoint.
Result<void> DetachFile(const Context& context, int task,
                        const std::string& name, const exec::FileFacts& file,
                        exec::UnmountMode mode, const std::string& object);

}  // namespace mountd::propagation
