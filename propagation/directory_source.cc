// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/directory_source.h"

#include <utility>

#include "propagation/files/caller_directory.h"
#include "propagation/kernel_filesystems.h"
#include "propagation/residence.h"

namespace mountd::propagation {

Result<void> OpenDirectorySource(const Context& context, const Base& base,
                                 const exec::AttachPlan& plan, int fd,
                                 Source* source) {
  const std::string object = "directory of the caller";
  if (IsApart(context)) {
    return MakeError(Code::kNotSupported, "open source", object,
                     "is not in mountd's own mount namespace; set [mounts] "
                     "namespace = \"host\"");
  }
  MOUNTD_ASSIGN(CallerDirectory directory,
                OpenCallerDirectory(context, fd, plan.caller, object));
  source->fd = std::move(directory.fd);
  source->file = directory.file;
  MOUNTD_ASSIGN(source->mount, context.inspector.Facts(source->file.mount_id));
  if (source->file.device == base.facts.device) {
    return MakeError(Code::kFailedPrecondition, "open source", object,
                     "is inside mountd's own directories");
  }
  if (IsKernelFilesystem(source->mount.type)) {
    return MakeError(
        Code::kFailedPrecondition, "open source", object,
        "is on a file system of the kernel, which mountd never mounts");
  }
  source->owner = plan.caller;
  return Ok();
}

Result<void> CheckStillCallers(const Context& context, const Source& source,
                               const std::string& object) {
  if (!source.owner) {
    return Ok();
  }
  // The executor's own descriptor leads to the place where the directory is
  // now.
  if (const Result<CallerDirectory> now =
          OpenCallerDirectory(context, source.fd.get(), *source.owner, object);
      !now) {
    Error error = now.error();
    if (error.code == Code::kPermissionDenied) {
      error.detail =
          "the directory was moved out of the caller's alloc_roots during the "
          "call; leave it in place";
    }
    return error;
  }
  return Ok();
}

}  // namespace mountd::propagation
