// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/inbox.h"

#include <sys/mount.h>
#include <sys/stat.h>

#include "mountd/base/paths.h"
#include "propagation/kernel_filesystems.h"
#include "propagation/lock_tree.h"
#include "propagation/open_tree.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::MountState;
using exec::Named;
using exec::Undo;

std::string ObjectOf(const exec::TaskPlan& plan) {
  return Text(plan.allocation) + "/" + Text(plan.task);
}

bool IsInbox(const FileFacts& facts) {
  return facts.mode == (S_IFDIR | kInboxMode);
}

// Takes the directory back from its group. Releases of mountd that did not use
// access control lists let a group pass.
Result<void> TakeFromGroup(const Context& context, int allocation,
                           const std::string& task, bool inbox,
                           const std::string& object) {
  MOUNTD_ASSIGN(const UniqueFd dir,
                OpenBeneath(context, allocation, task, object));
  MOUNTD_TRY(
      Named(context.kernel.SetOwner(dir.get(), 0, 0), "fchownat", object));
  return inbox ? Ok()
               : Named(context.kernel.SetMode(dir.get(), kTaskMode), "chmod",
                       object);
}

Result<void> RemoveTask(const Context& context, const UniqueFd& allocation,
                        const std::string& task, const std::string& object) {
  const exec::Sys<void> removed =
      context.kernel.RemoveDirectory(allocation.get(), task);
  // rmdir(2) fails with ENOTEMPTY if the directory has entries, and each mount
  // in it has an entry as its mountpoint.
  if (exec::FailedWith(removed, ENOTEMPTY)) {
    return MakeError(Code::kBusy, "rmdir", object,
                     "a mount is still in it; unmount it first");
  }
  return exec::FailedWith(removed, ENOENT) ? Ok()
                                           : Named(removed, "rmdir", object);
}

}  // namespace

Result<UniqueFd> EnsureTask(const Context& context, const UniqueFd& allocation,
                            const std::string& task, const std::string& object,
                            Undo* undo) {
  const exec::Sys<FileFacts> there =
      context.kernel.Stat(allocation.get(), task);
  const bool inbox = there && IsInbox(*there);
  if (there && there->gid != 0 && there->uid == 0 && !there->mount_root) {
    MOUNTD_TRY(TakeFromGroup(context, allocation.get(), task, inbox, object));
  }
  return EnsureDirectory(context, allocation.get(), task,
                         inbox ? kInboxMode : kTaskMode, object, undo);
}

Result<void> PrepareInbox(const Context& context, const exec::TaskPlan& plan,
                          const exec::Tell<MountState>& tell) {
  const std::string object = ObjectOf(plan);
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  MOUNTD_ASSIGN(const UniqueFd allocation,
                OpenAllocation(context, base, plan.allocation));
  UniqueFd task;
  Undo undo;
  MOUNTD_ASSIGN(
      task, EnsureTask(context, allocation, Text(plan.task), object, &undo));
  MOUNTD_ASSIGN(const FileFacts facts,
                Named(context.kernel.Stat(task.get(), ""), "statx", object));
  if (!IsInbox(facts)) {
    MOUNTD_TRY(
        Named(context.kernel.SetMode(task.get(), kInboxMode), "chmod", object));
    undo.Add([&context, &task] {
      IgnoreBecauseBestEffort(context.kernel.SetMode(task.get(), kTaskMode));
    });
  }
  MOUNTD_TRY(tell(MountState{}));
  undo.Commit();
  return Ok();
}

namespace {

Result<void> CheckAllInIt(const Context& context, const Base& base,
                          const exec::TaskPlan& plan,
                          const std::string& object) {
  const std::string below = std::string(paths::kBase) + "/" +
                            paths::kAllocations + "/" + Text(plan.allocation) +
                            "/" + Text(plan.task) + "/";
  MOUNTD_ASSIGN(const std::vector<MountFacts> mounts,
                Descendants(context.inspector, base.facts.mount_id));
  for (const MountFacts& mount : mounts) {
    if (!mount.point.starts_with(below)) {
      continue;
    }
    if (IsKernelFilesystem(mount.type)) {
      return MakeError(Code::kFailedPrecondition, "open_tree", object,
                       "a file system of the kernel (" + mount.type +
                           ") is mounted in it at " +
                           mount.point.substr(below.size()) +
                           "; unmount it first");
    }
  }
  return Ok();
}

}  // namespace

Result<UniqueFd> OpenInbox(const Context& context, const exec::TaskPlan& plan,
                           exec::HandedOutMount* mount) {
  exec::Kernel& kernel = context.kernel;
  const std::string object = ObjectOf(plan);
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  MOUNTD_ASSIGN(const UniqueFd allocation,
                OpenAllocation(context, base, plan.allocation));
  MOUNTD_ASSIGN(const UniqueFd task, OpenBeneath(context, allocation.get(),
                                                 Text(plan.task), object));
  MOUNTD_ASSIGN(const FileFacts facts,
                Named(kernel.Stat(task.get(), ""), "statx", object));
  if (!IsInbox(facts)) {
    return MakeError(Code::kFailedPrecondition, "open_tree", object,
                     "the task has no inbox; make it with PrepareInbox");
  }
  MOUNTD_TRY(CheckAllInIt(context, base, plan, object));
  MOUNTD_ASSIGN(UniqueFd tree,
                Named(kernel.CloneTree(task.get(), true), "open_tree", object));
  // A slave receives the inbox's later mounts and sends none back.
  MOUNTD_TRY(Named(kernel.SetMount(tree.get(), true, {.propagation = MS_SLAVE}),
                   "mount_setattr", object));
  MOUNTD_TRY(LockTree(context, object, &tree));
  MOUNTD_ASSIGN(*mount, IdentityOf(context, tree, base.facts.device));
  return tree;
}

Result<void> RemoveInbox(const Context& context, const exec::TaskPlan& plan) {
  const std::string object = ObjectOf(plan);
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  const Result<UniqueFd> allocation =
      OpenAllocation(context, base, plan.allocation);
  if (!allocation) {
    return allocation.error().sys_errno == ENOENT
               ? Ok()
               : Result<void>(allocation.error());
  }
  return RemoveTask(context, *allocation, Text(plan.task), object);
}

Result<void> RemoveTaskIfUnused(const Context& context,
                                const UniqueFd& allocation,
                                const std::string& task,
                                const std::string& object) {
  const exec::Sys<FileFacts> facts =
      context.kernel.Stat(allocation.get(), task);
  if (facts && IsInbox(*facts)) {
    return Ok();
  }
  Result<void> removed = RemoveTask(context, allocation, task, object);
  return !removed && removed.error().code == Code::kBusy ? Ok() : removed;
}

}  // namespace mountd::propagation
