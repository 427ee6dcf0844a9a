// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/base.h"

namespace mountd::propagation {

// Clones the plan's source, with all mounts below it, to
// base/a/<allocation>/<task>/<name>: nosuid and nodev always, read-only if the
// plan or the source's declaration says so, never visible with weaker flags.
// What is answered was read back from the kernel, and is what was asked or the
// mount is undone: FailedPrecondition says why. The same plan again answers the
// mount that is there; AlreadyExists if that is another.
Result<void> Attach(const Context& context, const exec::AttachPlan& plan,
                    const exec::Tell<exec::MountState>& tell);

// Unmounts the target with the mounts below it, if it is still
// `plan.mount_id`, and removes its mountpoint and an empty task directory.
// Never lazily: Busy while it is used, then perhaps without some of the mounts
// that were below it. A bidirectional target first leaves its peer group, so
// that mounts below it stay in the source.
Result<void> Detach(const Context& context, const exec::DetachPlan& plan);

// The part of it that is done at (task, name) once it is known to be `file`:
// the mount, if it is one, and its mountpoint.
Result<void> DetachFile(const Context& context, int task,
                        const std::string& name, const exec::FileFacts& file,
                        const std::string& object);

Result<exec::MountState> InspectTarget(const Context& context,
                                       const exec::TargetPlan& plan);

}  // namespace mountd::propagation
