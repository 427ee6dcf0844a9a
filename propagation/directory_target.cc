// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/directory_target.h"

#include <sys/stat.h>

#include <memory>

#include "propagation/caller_directory.h"
#include "propagation/outside_inbox.h"
#include "propagation/residence.h"

namespace mountd::propagation {

using exec::FileFacts;
using exec::MountState;
using exec::Named;
using exec::Undo;

Result<MountState> AttachToDirectory(const Context& context,
                                     const UniqueFd& allocation,
                                     const Source& source,
                                     const exec::AttachPlan& plan, int fd,
                                     const CloneSpec& spec, Undo* undo) {
  if (IsApart(context)) {
    return MakeError(Code::kNotSupported, "mount", spec.object,
                     "mountd's mounts are in a mount namespace of its own "
                     "([mounts] namespace), the directory is not");
  }
  if (!S_ISDIR(source.file.mode)) {
    return MakeError(Code::kFailedPrecondition, "mount", spec.object,
                     "the source is not a directory");
  }
  MOUNTD_ASSIGN(const CallerDirectory directory,
                OpenCallerDirectory(context, fd, plan.caller, spec.object));
  MOUNTD_ASSIGN(const std::shared_ptr<Place> place,
                ClaimPlace(context, allocation, plan.target, undo));
  MOUNTD_ASSIGN(const UniqueFd clone, MakeClone(context, source, spec));
  MOUNTD_ASSIGN(
      const FileFacts file,
      Named(context.kernel.Stat(clone.get(), ""), "statx", spec.object));
  MOUNTD_TRY(WritePlaceholder(context, place, {file.mount_id, 0, 0}, undo));
  MOUNTD_TRY(Named(context.kernel.AttachTree(clone.get(), directory.fd.get()),
                   "move_mount", spec.object));
  return Settle(context, source, clone, directory.file.mount_id, spec);
}

}  // namespace mountd::propagation
