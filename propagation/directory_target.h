// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/clone.h"

// Mounts on directories that callers pass. Which mount it is that belongs to
// (allocation, task, name) is written down before it is attached: the target's
// place in the inbox is a link then, whose text is the mount's id, in a
// directory where only root writes. So is it found again, wherever the
// directory has been moved, and never taken for another.
namespace mountd::propagation {

// Attaches a clone of `source`, which is a directory, on the directory that
// `fd` is of, and answers what was read back. What `undo` refers to is kept by
// it.
Result<exec::MountState> AttachToDirectory(const Context& context,
                                           const UniqueFd& allocation,
                                           const Source& source,
                                           const exec::AttachPlan& plan, int fd,
                                           const CloneSpec& spec,
                                           exec::Undo* undo);

// The mount that is written down at (task, name); mount_id 0 if it has gone.
Result<exec::MountState> InspectMarked(const Context& context, int task,
                                       const std::string& name,
                                       const std::string& object);

// Unmounts it and removes the link. Gone already is success; Busy while it is
// used, or covered by another.
Result<void> DetachMarked(const Context& context, int task,
                          const std::string& name, exec::UnmountMode mode,
                          const std::string& object);

}  // namespace mountd::propagation
