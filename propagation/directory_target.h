// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/clone.h"

namespace mountd::propagation {

// Attaches a clone of `source`, which is a directory, on the directory that
// `fd` is of, which a caller passed (caller_directory.h), and answers what was
// read back. It is found again as outside_inbox.h says.
Result<exec::MountState> AttachToDirectory(const Context& context,
                                           const UniqueFd& allocation,
                                           const Source& source,
                                           const exec::AttachPlan& plan, int fd,
                                           const CloneSpec& spec,
                                           exec::Undo* undo);

}  // namespace mountd::propagation
