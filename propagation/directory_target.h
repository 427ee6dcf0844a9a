// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/clone.h"

namespace mountd::propagation {

// Attaches a clone of `source`, a directory, on the directory that a caller
// passed as `fd` (caller_directory.h), and returns the state that the kernel
// reports. outside_inbox.h says how a later plan finds the mount. NotSupported
// in a mount namespace of mountd's own, because the directory is not in that
// namespace. FailedPrecondition if the source is not a directory.
Result<exec::MountState> AttachToDirectory(const Context& context,
                                           const UniqueFd& allocation,
                                           const Source& source,
                                           const exec::AttachPlan& plan, int fd,
                                           const CloneSpec& spec,
                                           exec::Undo* undo);

}  // namespace mountd::propagation
