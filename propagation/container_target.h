// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/clone.h"

namespace mountd::propagation {

// Attaches a clone of `source` at the plan's path in the container of the
// process that `pidfd` refers to (container.h), and returns the state that the
// kernel reports. The path contains no link. The path leads to a directory if
// the source is a directory, and to a file otherwise, because this function
// creates nothing in the container's file systems. The mount reaches no other
// mount namespace. outside_inbox.h says how a later plan finds the mount; the
// mount goes with the container. FailedPrecondition if the mount that holds the
// path is shared.
Result<exec::MountState> AttachInContainer(const Context& context,
                                           const UniqueFd& allocation,
                                           const Source& source,
                                           const exec::AttachPlan& plan,
                                           int pidfd, const CloneSpec& spec,
                                           exec::Undo* undo);

}  // namespace mountd::propagation
