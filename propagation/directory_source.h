// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "propagation/source.h"

namespace mountd::propagation {

// Opens the directory that a caller passed as `fd` (caller_directory.h) as the
// plan's source. Its clone has no mounts below it.
//
// NotSupported in a mount namespace of mountd's own, because the directory is
// not in that namespace. FailedPrecondition if the directory is on a file
// system of the kernel or in mountd's own directories. Otherwise as
// OpenCallerDirectory.
Result<void> OpenDirectorySource(const Context& context, const Base& base,
                                 const exec::AttachPlan& plan, int fd,
                                 Source* source);

// PermissionDenied if the directory's owner moved it out of the caller's
// alloc_roots after OpenDirectorySource. Does nothing for another source.
Result<void> CheckStillCallers(const Context& context, const Source& source,
                               const std::string& object);

}  // namespace mountd::propagation
