// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/plan/tree_plans.h"
#include "propagation/files/tree_walk.h"

namespace mountd::propagation {

// Sets the owner of everything below a directory that a caller passed to
// plan.uid and plan.gid, as far as `bound` allows. The answer has the position
// where the next plan must continue. Both ids must be the caller's own or lie
// in `ids` of a rule for the caller; PermissionDenied otherwise.
//
// Changes only files that belong to the caller or to such an id now, because a
// task can make a hard link to any file of the host's on the same file system
// and would be given that file. Counts and leaves the other files. Changes
// links and does not follow them. Busy if a mount lies anywhere in the tree.
Result<exec::TreeReply> ChownSome(const Context& context, int fd,
                                  const exec::TreePlan& plan,
                                  const TreeBound& bound);

}  // namespace mountd::propagation
