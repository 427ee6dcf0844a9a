// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/replace_mount.h"

#include <sys/mount.h>

#include <utility>

#include "propagation/kernel_filesystems.h"

namespace mountd::propagation {
namespace {

using exec::MountState;
using exec::Named;

// Detaches the covering mount even while it is in use. A mount with a peer
// group leaves it first, because mounts below it belong to the source, too.
Result<void> Uncover(const Context& context, Target* target,
                     const FileOnMount& top, const std::string& object) {
  exec::Kernel& kernel = context.kernel;
  if (top.mount.peer_group != 0) {
    MOUNTD_TRY(Named(
        kernel.SetMount(target->point.get(), true, {.propagation = MS_PRIVATE}),
        "mount_setattr", object));
  }
  target->point.reset();
  MOUNTD_TRY(Named(kernel.Unmount(target->task.get(), target->name, MNT_DETACH),
                   "umount2", object));
  MOUNTD_ASSIGN(target->point,
                OpenBeneath(context, target->task.get(), target->name, object));
  return Ok();
}

// Does step 3 on the clone, and checks the clone also after a step that an
// earlier attempt did, because that attempt may have ended before its check.
Result<MountState> SettleChecked(const Context& context, const Base& base,
                                 const Source& source, Target* target,
                                 const CloneSpec& spec) {
  MOUNTD_ASSIGN(const MountState state, Settle(context, source, target->point,
                                               base.facts.mount_id, spec));
  Result<void> clean = CheckClone(context, state.mount_id, spec);
  if (clean) {
    return state;
  }
  if (clean.error().code == Code::kFailedPrecondition) {
    // The old mount is gone. No mount is better than one that shows the
    // kernel's files.
    target->point.reset();
    IgnoreBecauseBestEffort(
        context.kernel.Unmount(target->task.get(), target->name, MNT_DETACH));
  }
  return std::move(clean).error();
}

// Finishes the swap once the clone is beneath: steps 2 and 3.
Result<MountState> Finish(const Context& context, const Base& base,
                          const Source& source, Target* target,
                          const FileOnMount& top, const CloneSpec& spec) {
  MOUNTD_TRY(Uncover(context, target, top, spec.object));
  return SettleChecked(context, base, source, target, spec);
}

// Accepts the mount that is there: an earlier attempt carried out the plan,
// except perhaps step 3, and its answer was lost.
Result<MountState> Adopt(const Context& context, const Base& base,
                         const Source& source, Target* target,
                         const FileOnMount& top, const CloneSpec& spec) {
  const bool of_source = top.file.device == source.file.device &&
                         top.file.inode == source.file.inode &&
                         top.mount.parent_id == base.facts.mount_id;
  if (!of_source) {
    return MakeError(Code::kAlreadyExists, "mount", spec.object,
                     "another mount is at the target");
  }
  return SettleChecked(context, base, source, target, spec);
}

}  // namespace

Result<MountState> Swap(const Context& context, const Base& base,
                        const Source& source, Target* target,
                        const CloneSpec& spec, std::uint64_t old_id,
                        exec::Undo* undo) {
  exec::Kernel& kernel = context.kernel;
  MOUNTD_ASSIGN(const FileOnMount top,
                LookAt(context, target->task.get(), target->name, spec.object));
  if (top.mount.id != old_id) {
    return Adopt(context, base, source, target, top, spec);
  }
  // A mount that does not lie right on the base lies on the clone of an earlier
  // attempt, which did step 1.
  if (top.mount.parent_id != base.facts.mount_id) {
    undo->Commit();
    return Finish(context, base, source, target, top, spec);
  }
  MOUNTD_ASSIGN(const Clone clone, MakeClone(context, source, spec));
  MOUNTD_TRY(Named(kernel.AttachBeneath(clone.tree.get(), target->point.get()),
                   "move_mount", spec.object));
  // The clone needs what was mounted for its source, and from here the swap
  // only goes forward (replace_mount.h).
  undo->Commit();
  return Finish(context, base, source, target, top, spec);
}

}  // namespace mountd::propagation
