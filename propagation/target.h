// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/source.h"

namespace mountd::propagation {

// base/a/<allocation>/<task>/<name>, where a task's mount lies. The directory
// above it is the task's inbox: given to the task once, as a slave, it brings
// it what is mounted here later.
struct Target {
  UniqueFd task;   // the directory it lies in
  UniqueFd point;  // O_PATH of the mountpoint; of the mount if `mounted`
  std::string name;
  bool mounted = false;
};

// "web/server/data", for errors.
std::string ObjectOf(const exec::TargetPlan& plan);

// Opens the directory or file to mount on; makes it if it is missing, and the
// task's directory, removed again by `undo`. AlreadyExists if it is of another
// type than `source`.
Result<void> MakeTarget(const Context& context, const UniqueFd& allocation,
                        const exec::TargetPlan& plan, const Source& source,
                        Target* target, exec::Undo* undo);

// What is at (task, name), which is `file`: a mount, or the marker of one that
// is on a caller's directory.
Result<exec::MountState> StateAt(const Context& context, int task,
                                 const std::string& name,
                                 const exec::FileFacts& file,
                                 const std::string& object);

// The mount at the target, if there is one.
Result<exec::MountState> InspectTarget(const Context& context,
                                       const exec::TargetPlan& plan);

}  // namespace mountd::propagation
