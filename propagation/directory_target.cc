// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/directory_target.h"

#include <sys/stat.h>

#include <memory>

#include "mountd/base/paths.h"
#include "propagation/files/caller_directory.h"
#include "propagation/kernel_filesystems.h"
#include "propagation/outside_inbox.h"
#include "propagation/residence.h"

namespace mountd::propagation {

using exec::MountState;
using exec::Named;
using exec::Undo;

namespace {

// PermissionDenied if the directory's owner moved it out of the caller's
// alloc_roots between the check and the mount.
Result<void> CheckStillBeneath(const Context& context,
                               const CallerDirectory& directory,
                               std::uint64_t mount_id,
                               const std::string& object) {
  MOUNTD_ASSIGN(const MountFacts mount, context.inspector.Facts(mount_id));
  return mount.point != directory.root &&
                 paths::IsAtOrBelow(mount.point, directory.root)
             ? Ok()
             : Result<void>(
                   MakeError(Code::kPermissionDenied, "mount", object,
                             "the directory was moved out of the caller's "
                             "alloc_roots during the call; leave it in place"));
}

}  // namespace

Result<MountState> AttachToDirectory(const Context& context,
                                     const UniqueFd& allocation,
                                     const Source& source,
                                     const exec::AttachPlan& plan, int fd,
                                     const CloneSpec& spec, Undo* undo) {
  if (IsApart(context)) {
    return MakeError(Code::kNotSupported, "mount", spec.object,
                     "the directory is not in mountd's own mount namespace; "
                     "use the inbox, or set [mounts] namespace = \"host\"");
  }
  if (!S_ISDIR(source.file.mode)) {
    return MakeError(Code::kFailedPrecondition, "mount", spec.object,
                     "the source must be a directory");
  }
  MOUNTD_ASSIGN(const CallerDirectory directory,
                OpenCallerDirectory(context, fd, plan.caller, spec.object));
  MOUNTD_ASSIGN(const std::shared_ptr<Place> place,
                ClaimPlace(context, allocation, plan.target, undo));
  MOUNTD_ASSIGN(const Clone clone, MakeClone(context, source, spec));
  const std::uint64_t id = clone.file.mount_id;
  Placeholder placeholder = PlaceholderOf(source, clone);
  if (!clone.file.mount_id_is_unique) {
    placeholder.inode = clone.file.inode;
    placeholder.parent = directory.file.mount_id;
  }
  // Write the mount down before attaching it, so that a later plan finds it
  // even if this executor is killed.
  MOUNTD_TRY(WritePlaceholder(context, place, placeholder, undo));
  MOUNTD_TRY(
      Named(context.kernel.AttachTree(clone.tree.get(), directory.fd.get()),
            "move_mount", spec.object));
  // Check after the attach, because the owner can move the directory at any
  // moment before it.
  MOUNTD_TRY(CheckStillBeneath(context, directory, id, spec.object));
  MOUNTD_TRY(CheckClone(context, id, spec));
  return Settle(context, source, clone.tree, directory.file.mount_id, spec);
}

}  // namespace mountd::propagation
