// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>

#include "propagation/clone.h"

// Mounts that lie outside their task's inbox: on a caller's directory or in a
// container. Before the executor attaches such a mount, it writes down which
// mount belongs to (allocation, task, name): the target's place in the inbox
// becomes a link with that text, in a directory where only root writes. Later
// plans find the mount by this text, wherever its directory was moved, and
// never take another mount for it.
namespace mountd::propagation {

// The link's text: all of these numbers, in this order. A link may have the
// first number alone, or the first three; the others are then 0.
struct Placeholder {
  std::uint64_t mount_id = 0;
  std::uint64_t mount_namespace = 0;  // inode; 0: the executor's own
  std::uint64_t cgroup = 0;  // id; one of its processes is in the namespace
  // Before Linux 6.8 the kernel reuses mount ids. There these numbers tell the
  // mount from another one that has its id, in most cases. 0: not compared.
  std::uint64_t device = 0;  // as in mountinfo
  std::uint64_t inode = 0;   // of the mount's root
  std::uint64_t parent = 0;  // mount id
};

// A target's place in its task's inbox.
struct Place {
  UniqueFd task;
  std::string name;
  std::string object;
};

// Returns the target's place if it is free. Removes the placeholder of a mount
// that is gone. AlreadyExists if another mount has the place. `undo` keeps what
// it refers to alive.
Result<std::shared_ptr<Place>> ClaimPlace(const Context& context,
                                          const UniqueFd& allocation,
                                          const exec::TargetPlan& target,
                                          exec::Undo* undo);

// Returns a placeholder of the clone, with a device if the kernel reuses mount
// ids. The caller fills in the other fields.
Placeholder PlaceholderOf(const Source& source, const Clone& clone);

// Writes the placeholder. Its undo detaches the mount that the placeholder
// names, if that mount is attached by then.
Result<void> WritePlaceholder(const Context& context,
                              const std::shared_ptr<Place>& place,
                              const Placeholder& placeholder, exec::Undo* undo);

// Returns the state of the mount that (task, name) names. mount_id is 0 if the
// mount is gone, alone or with its container.
Result<exec::MountState> InspectOutside(const Context& context, int task,
                                        const std::string& name,
                                        const std::string& object);

// Unmounts the placeholder's mount, which is in this namespace, wherever it was
// moved; before Linux 6.8 only if it is still on the mount that it was attached
// to. A mount that is gone already is success.
Result<void> UnmountById(const Context& context, const Placeholder& placeholder,
                         exec::UnmountMode mode, const std::string& object);

// Unmounts the mount that (task, name) names and removes the link. A mount that
// is gone already is success. Busy while the mount is in use or covered by
// another.
Result<void> DetachOutside(const Context& context, int task,
                           const std::string& name, exec::UnmountMode mode,
                           const std::string& object);

}  // namespace mountd::propagation
