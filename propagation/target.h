// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/source.h"

namespace mountd::propagation {

// The place base/a/<allocation>/<task>/<name> of a task's mount. The directory
// above it is the task's inbox. The task has that directory mounted once, as a
// slave, so that mounts made here later arrive in the task.
struct Target {
  UniqueFd task;   // the directory that `point` lies in
  UniqueFd point;  // O_PATH of the mountpoint; of the mount if `mounted`
  std::string name;
  bool mounted = false;
};

// Returns a text such as "web/server/data" for errors.
std::string ObjectOf(const exec::TargetPlan& plan);

// Opens the directory or file to mount on. Makes it and the task's directory if
// they are missing; `undo` removes what this function made. AlreadyExists if
// the existing one is of another type than `source`.
Result<void> MakeTarget(const Context& context, const UniqueFd& allocation,
                        const exec::TargetPlan& plan, const Source& source,
                        Target* target, exec::Undo* undo);

// Returns the state of (task, name), which is `file`: a mount, or the link for
// a mount outside the inbox (outside_inbox.h).
Result<exec::MountState> StateAt(const Context& context, int task,
                                 const std::string& name,
                                 const exec::FileFacts& file,
                                 const std::string& object);

// Returns the state of the mount at the target, if there is one.
Result<exec::MountState> InspectTarget(const Context& context,
                                       const exec::TargetPlan& plan);

}  // namespace mountd::propagation
