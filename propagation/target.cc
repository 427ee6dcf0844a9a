// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/target.h"

#include <sys/stat.h>

#include <cerrno>

#include "propagation/inbox.h"
#include "propagation/outside_inbox.h"

namespace mountd::propagation {

using exec::FileFacts;
using exec::MountState;
using exec::Named;
using exec::Undo;

std::string ObjectOf(const exec::TargetPlan& plan) {
  return Text(plan.allocation) + "/" + Text(plan.task) + "/" + Text(plan.name);
}

Result<void> MakeTarget(const Context& context, const UniqueFd& allocation,
                        const exec::TargetPlan& plan, const Source& source,
                        Target* target, Undo* undo) {
  exec::Kernel& kernel = context.kernel;
  const std::string object = ObjectOf(plan);
  MOUNTD_ASSIGN(target->task,
                EnsureTask(context, allocation, Text(plan.task), object, undo));
  target->name = Text(plan.name);
  const bool directory = S_ISDIR(source.file.mode);
  const exec::Sys<void> made =
      directory ? kernel.MakeDirectory(target->task.get(), target->name, 0700)
                : kernel.MakeFile(target->task.get(), target->name, 0600);
  // EEXIST: the mount is there already, or an interrupted plan left its
  // mountpoint.
  if (!made && made.error() != EEXIST) {
    return ErrnoError(made.error(), directory ? "mkdirat" : "openat", object);
  }
  if (made) {
    undo->Add([&kernel, target, directory] {
      IgnoreBecauseBestEffort(
          directory ? kernel.RemoveDirectory(target->task.get(), target->name)
                    : kernel.RemoveFile(target->task.get(), target->name));
    });
  }
  Result<UniqueFd> point =
      OpenBeneath(context, target->task.get(), target->name, object);
  // A link is a placeholder (outside_inbox.h), which OpenBeneath does not
  // follow.
  if (!point && point.error().sys_errno == ELOOP) {
    return MakeError(Code::kAlreadyExists, "mount", object,
                     "a mount outside the inbox has this name; choose another");
  }
  MOUNTD_ASSIGN(target->point, std::move(point));
  MOUNTD_ASSIGN(const FileFacts there,
                Named(kernel.Stat(target->point.get(), ""), "statx", object));
  target->mounted = there.mount_root;
  if (S_ISDIR(there.mode) != directory) {
    return MakeError(Code::kAlreadyExists, "mount", object,
                     "the name exists and is of another type than the source; "
                     "choose another name");
  }
  return Ok();
}

Result<MountState> StateAt(const Context& context, int task,
                           const std::string& name, const FileFacts& file,
                           const std::string& object) {
  if (S_ISLNK(file.mode)) {
    return InspectOutside(context, task, name, object);
  }
  MountFacts mount;
  if (file.mount_root) {
    MOUNTD_ASSIGN(mount, context.inspector.Facts(file.mount_id));
  }
  MountState state = StateOf(file, mount);
  if (file.mount_root) {
    MOUNTD_ASSIGN(const FileFacts above,
                  Named(context.kernel.Stat(task, ""), "statx", object));
    state.is_stacked = mount.parent_id == above.mount_id ? 0 : 1;
  }
  return state;
}

Result<MountState> InspectTarget(const Context& context,
                                 const exec::TargetPlan& plan) {
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  const Result<UniqueFd> allocation =
      OpenAllocation(context, base, plan.allocation);
  if (!allocation && allocation.error().sys_errno != ENOENT) {
    return allocation.error();
  }
  if (!allocation) {
    return MountState{};
  }
  const Result<UniqueFd> task =
      OpenBeneath(context, allocation->get(), Text(plan.task), ObjectOf(plan));
  if (!task) {
    return task.error().sys_errno == ENOENT ? Result<MountState>(MountState{})
                                            : task.error();
  }
  const exec::Sys<FileFacts> file =
      context.kernel.Stat(task->get(), Text(plan.name));
  // Nothing can be mounted at a name that does not exist.
  if (exec::FailedWith(file, ENOENT)) {
    return MountState{};
  }
  // FUSE tells root nothing but the place of a user's own mount. The user can
  // cover a mount with it that follows the user's directory.
  if (exec::FailedWith(file, EACCES)) {
    MOUNTD_ASSIGN(const FileFacts place,
                  Named(context.kernel.StatLinked(task->get(), Text(plan.name)),
                        "statx", ObjectOf(plan)));
    MountState state;
    state.exists = 1;
    state.mount_id = place.mount_id;
    state.device = place.device;
    state.is_stacked = 1;
    return state;
  }
  if (!file) {
    return ErrnoError(file.error(), "statx", ObjectOf(plan));
  }
  return StateAt(context, task->get(), Text(plan.name), *file, ObjectOf(plan));
}

}  // namespace mountd::propagation
