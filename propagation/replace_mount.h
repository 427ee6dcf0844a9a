// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/clone.h"
#include "propagation/target.h"

namespace mountd::propagation {

// Replaces the mount `old_id` at `target` by a clone of `source`. At every
// moment one of the two is mounted there (MOVE_MOUNT_BENEATH, Linux 6.5; on
// older kernels the caller refuses the plan before it begins):
//
//   1. attach the clone beneath the old mount, which still covers it
//   2. detach the old mount: from now on, paths lead to the clone
//   3. set the clone's propagation again. Not earlier, because step 2 does not
//      reach copies of the inbox in tasks while the clone's propagation differs
//      from its parent's
//
// A process that has the old mount or a mount below it open keeps using that. A
// failure in step 1 leaves everything as it was. After step 1 the swap only
// goes forward: Swap commits `undo`, because the clone needs what was mounted
// for its source, and the same plan sent again finishes the remaining steps.
// AlreadyExists if a mount other than the old one or the clone is there.
Result<exec::MountState> Swap(const Context& context, const Base& base,
                              const Source& source, Target* target,
                              const CloneSpec& spec, std::uint64_t old_id,
                              exec::Undo* undo);

}  // namespace mountd::propagation
