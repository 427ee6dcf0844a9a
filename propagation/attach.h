// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/ground/base.h"

namespace mountd::propagation {

// Attaches the plan's source at base/a/<allocation>/<task>/<name>: a clone of
// the source with all mounts below it, or the mount made for this plan if the
// source is a new file system. The mount is always nosuid and nodev, read-only
// if the plan or the source's declaration says so, and never visible with
// weaker flags. `tell` gets the state that the kernel reports afterwards.
//
// If `fd` is a caller's directory, propagation/directory_target.h says what
// differs; if `fd` is the pidfd of a container's process,
// propagation/container_target.h does. With `replaces`, the clone takes that
// mount's place (propagation/replace_mount.h). The same plan again answers with
// the mount that is there.
//
// FailedPrecondition if the kernel reports another mount than the plan asks
// for; the new mount is then undone. AlreadyExists if another mount is at the
// target. NotFound if `replaces` is set and nothing is mounted there.
Result<void> Attach(const Context& context, const exec::AttachPlan& plan,
                    int fd, const exec::Tell<exec::MountState>& tell);

}  // namespace mountd::propagation
