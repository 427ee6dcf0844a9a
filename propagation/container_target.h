// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/clone.h"

namespace mountd::propagation {

// Attaches a clone of `source` at the plan's path in the container of the
// process that `pidfd` is of (container.h), and answers what was read back. The
// path leads through no link, and to a directory if the source is one, to a
// file if not: nothing is made in the container's file systems, and nothing of
// the mount reaches another namespace: FailedPrecondition if what holds the
// path is shared. It is found again as outside_inbox.h says, and goes with the
// container.
Result<exec::MountState> AttachInContainer(const Context& context,
                                           const UniqueFd& allocation,
                                           const Source& source,
                                           const exec::AttachPlan& plan,
                                           int pidfd, const CloneSpec& spec,
                                           exec::Undo* undo);

}  // namespace mountd::propagation
