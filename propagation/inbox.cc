// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/inbox.h"

#include <sys/stat.h>

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

Result<void> RemoveTask(const Context& context, const UniqueFd& allocation,
                        const std::string& task, const std::string& object) {
  const exec::Sys<void> removed =
      context.kernel.RemoveDirectory(allocation.get(), task);
  if (exec::FailedWith(removed, ENOTEMPTY)) {
    return MakeError(Code::kBusy, "rmdir", object, "a mount is left in it");
  }
  return exec::FailedWith(removed, ENOENT) ? Ok()
                                           : Named(removed, "rmdir", object);
}

}  // namespace

Result<UniqueFd> EnsureTask(const Context& context, const UniqueFd& allocation,
                            const std::string& task, const std::string& object,
                            Undo* undo) {
  MOUNTD_ASSIGN(
      const FileFacts above,
      Named(context.kernel.Stat(allocation.get(), ""), "statx", object));
  const exec::Sys<FileFacts> there =
      context.kernel.Stat(allocation.get(), task);
  const bool inbox = there && IsInbox(*there);
  return EnsureDirectory(context, allocation.get(), task,
                         inbox ? kInboxMode : kTaskMode, above.gid, object,
                         undo);
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
