// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>

#include "propagation/clone.h"

// Mounts that are not in their task's inbox: on a caller's directory, or in a
// container. Which mount it is that belongs to (allocation, task, name) is
// written down before it is attached: the target's place in the inbox is a link
// then, whose text says it, in a directory where only root writes. So is it
// found again, wherever the directory has been moved, and never taken for
// another.
namespace mountd::propagation {

// "<mount id>", or "<mount id> <mount namespace> <cgroup>".
struct Placeholder {
  std::uint64_t mount_id = 0;
  std::uint64_t mount_namespace = 0;  // inode; 0: the executor's own
  std::uint64_t cgroup = 0;  // id: its processes are looked through for that
};

// A target's place in its inbox.
struct Place {
  UniqueFd task;
  std::string name;
  std::string object;
};

// The target's place, free but for the placeholder of a mount that has gone,
// which is removed. AlreadyExists if it is taken. What `undo` refers to is kept
// by it.
Result<std::shared_ptr<Place>> ClaimPlace(const Context& context,
                                          const UniqueFd& allocation,
                                          const exec::TargetPlan& target,
                                          exec::Undo* undo);

// To undo it detaches the mount that it says, if it is attached by then, too.
Result<void> WritePlaceholder(const Context& context,
                              const std::shared_ptr<Place>& place,
                              const Placeholder& placeholder, exec::Undo* undo);

// The mount that is written down at (task, name); mount_id 0 if it has gone,
// also with its container.
Result<exec::MountState> InspectOutside(const Context& context, int task,
                                        const std::string& name,
                                        const std::string& object);

// Unmounts the mount `id` of this namespace, wherever it was moved. Gone
// already is success.
Result<void> UnmountById(const Context& context, std::uint64_t id,
                         exec::UnmountMode mode, const std::string& object);

// Unmounts it and removes the link. Gone already is success; Busy while it is
// used, or covered by another.
Result<void> DetachOutside(const Context& context, int task,
                           const std::string& name, exec::UnmountMode mode,
                           const std::string& object);

}  // namespace mountd::propagation
