// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/clone.h"
#include "propagation/target.h"

namespace mountd::propagation {

// Puts a clone of `source` in the place of the mount `old_id` at `target`, with
// no moment in between at which there is none (MOVE_MOUNT_BENEATH, Linux 6.5;
// before it the caller refuses, as nothing is begun then):
//
//   1. the clone is mounted beneath the old mount, which still covers it
//   2. the old mount is detached: from here on, paths lead to the clone
//   3. the clone's propagation is set again. Not sooner: while it is another's
//      than its parent's, step 2 would not reach copies of the inbox in tasks
//
// What had the old mount open goes on with the old one, mounts below it too.
// Up to 1 a failure leaves all as it was. After it there is only the way on:
// `undo` is committed, as the clone needs what was mounted for its source, and
// the same plan again finishes what is left, from wherever it was cut off.
// AlreadyExists if another mount than the old one or the clone is there.
Result<exec::MountState> Swap(const Context& context, const Base& base,
                              const Source& source, Target* target,
                              const CloneSpec& spec, std::uint64_t old_id,
                              exec::Undo* undo);

}  // namespace mountd::propagation
