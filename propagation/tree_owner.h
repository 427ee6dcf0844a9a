// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/tree_walk.h"

namespace mountd::propagation {

// Gives everything below a directory that a caller passed to plan.uid and
// plan.gid, as much of it as fits into `bound`; the answer says where to go on,
// which the next plan brings back. Both ids must be the caller's own, or lie in
// `ids` of a rule for it.
//
// Only what belongs to the caller or to such an id now is changed: a task can
// link to any file of the host's that lies on the same file system, and would
// else be given it. What belongs to others is left and counted. Links are
// changed and not followed; a mount anywhere is Busy.
Result<exec::TreeReply> ChownSome(const Context& context, int fd,
                                  const exec::TreePlan& plan,
                                  const TreeBound& bound);

}  // namespace mountd::propagation
