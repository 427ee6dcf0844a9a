// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/base.h"

namespace mountd::propagation {

// Clones the plan's source, with all mounts below it, or makes it, if it is a
// new file system, at
// base/a/<allocation>/<task>/<name>: nosuid and nodev always, read-only if the
// plan or the source's declaration says so, never visible with weaker flags.
// What is answered was read back from the kernel, and is what was asked or the
// mount is undone: FailedPrecondition says why. The same plan again answers the
// mount that is there; AlreadyExists if that is another.
// On a caller's directory, `fd`, it is as propagation/directory_target.h says;
// in a container, whose pidfd `fd` is, as propagation/container_target.h says.
// With `replaces`, the clone takes that mount's place (propagation/swap.h);
// NotFound if nothing is mounted there.
Result<void> Attach(const Context& context, const exec::AttachPlan& plan,
                    int fd, const exec::Tell<exec::MountState>& tell);

}  // namespace mountd::propagation
