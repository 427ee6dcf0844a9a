// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/allocation.h"

#include <sys/stat.h>

#include "mountd/base/paths.h"
#include "propagation/detach.h"
#include "propagation/files/network_files.h"
#include "propagation/ground/passage.h"

namespace mountd::propagation {
namespace {

using exec::AllocationPlan;
using exec::FileFacts;
using exec::MountState;
using exec::Named;
using exec::Undo;

// Bounds the memory of one sweep. If a directory has more entries, rmdir(2)
// fails with ENOTEMPTY, and the next call removes more.
constexpr std::size_t kMaxEntries = 4096;

Error ForeignInAllocation(const std::string& object) {
  return MakeError(
      Code::kBusy, "rmdir", object,
      "its directory holds a mount that mountd did not make; unmount it first");
}

// Opens a directory below `dir`. Busy if a mount lies on the way to the
// directory, because the directory must lie in the base's own mount.
Result<UniqueFd> OpenInBase(const Context& context, const Base& base, int dir,
                            const std::string& name,
                            const std::string& object) {
  MOUNTD_ASSIGN(UniqueFd fd, OpenBeneath(context, dir, name, object));
  MOUNTD_ASSIGN(const FileFacts facts,
                Named(context.kernel.Stat(fd.get(), ""), "statx", object));
  if (facts.mount_id != base.facts.mount_id) {
    return ForeignInAllocation(object);
  }
  return fd;
}

// Returns whether an executor attached `mount_id`: the mount lies right on the
// base, or on a mount that lies right on the base, as an interrupted swap
// leaves it. Only a swap attaches the lower mount after the upper one, so the
// lower one must be the younger (unique mount ids grow).
Result<bool> IsExecutors(const Context& context, const Base& base,
                         std::uint64_t mount_id) {
  MOUNTD_ASSIGN(const MountFacts mount, context.inspector.Facts(mount_id));
  if (mount.parent_id == base.facts.mount_id) {
    return true;
  }
  MOUNTD_ASSIGN(const MountFacts beneath,
                context.inspector.Facts(mount.parent_id));
  return beneath.parent_id == base.facts.mount_id &&
         beneath.point == mount.point && beneath.id > mount.id;
}

// Detaches and removes one target. Only executors mount right on the base, so a
// mount there that mountd has no record of was left by an executor that was
// killed or given up.
Result<void> SweepTarget(const Context& context, const Base& base, int task,
                         const std::string& name, const std::string& object) {
  MOUNTD_ASSIGN(const FileFacts file,
                Named(context.kernel.Stat(task, name), "statx", object));
  if (file.mount_root) {
    MOUNTD_ASSIGN(const bool own, IsExecutors(context, base, file.mount_id));
    if (!own) {
      return ForeignInAllocation(object);
    }
  }
  // Plain, not lazy: umount2 answers EBUSY while a process uses the mount.
  return DetachFile(context, task, name, file, exec::UnmountMode::kPlain,
                    object);
}

Result<void> SweepTask(const Context& context, const Base& base, int allocation,
                       const std::string& task, const std::string& object) {
  MOUNTD_ASSIGN(const UniqueFd dir,
                OpenInBase(context, base, allocation, task, object));
  MOUNTD_ASSIGN(
      const std::vector<std::string> names,
      Named(context.kernel.List(dir.get(), kMaxEntries), "getdents64", object));
  for (const std::string& name : names) {
    MOUNTD_TRY(SweepTarget(context, base, dir.get(), name, object));
  }
  return Named(context.kernel.RemoveDirectory(allocation, task), "rmdir",
               object);
}

}  // namespace

Result<void> PrepareAllocation(const Context& context,
                               const AllocationPlan& plan,
                               const exec::Tell<MountState>& tell) {
  const std::string name = Text(plan.allocation);
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  // Lock first, so that a plan that mountd gave up is finished or undone before
  // this plan looks at the directory.
  MOUNTD_ASSIGN(const UniqueFd all,
                LockPart(context, base, paths::kAllocations, name));
  Undo undo;
  MOUNTD_TRY(EnsurePassage(context, all.get(), name, {plan.uid, plan.group},
                           name, &undo));
  MOUNTD_TRY(CloseNetworkFiles(context, base, plan));
  MOUNTD_TRY(tell(MountState{}));
  undo.Commit();
  return Ok();
}

Result<void> RemoveAllocation(const Context& context,
                              const AllocationPlan& plan) {
  const std::string name = Text(plan.allocation);
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  MOUNTD_ASSIGN(const UniqueFd all,
                OpenBeneath(context, base.fd.get(), paths::kAllocations, name));
  // The common case first: the directory is empty once its tasks are gone.
  const exec::Sys<void> removed =
      context.kernel.RemoveDirectory(all.get(), name);
  if (removed || removed.error() == ENOENT) {
    return Ok();
  }
  // Only ENOTEMPTY means that an interrupted plan left something to sweep.
  if (removed.error() != ENOTEMPTY) {
    return ErrnoError(removed.error(), "rmdir", name);
  }
  MOUNTD_ASSIGN(const UniqueFd dir,
                OpenInBase(context, base, all.get(), name, name));
  MOUNTD_ASSIGN(
      const std::vector<std::string> tasks,
      Named(context.kernel.List(dir.get(), kMaxEntries), "getdents64", name));
  for (const std::string& task : tasks) {
    MOUNTD_TRY(SweepTask(context, base, dir.get(), task, name));
  }
  return Named(context.kernel.RemoveDirectory(all.get(), name), "rmdir", name);
}

}  // namespace mountd::propagation
