// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/clone.h"

namespace mountd::propagation {

// A clone of the plan's source, attached nowhere: the one mount, without those
// below it, nosuid and nodev, private or a slave of the source. It goes with
// its last fd, and nothing else is kept for it. FailedPrecondition of a source
// that is read-only (who has the fd could change that), or that would be a
// slave of an anchor, which others' mounts keep or not.
Result<UniqueFd> OpenTree(const Context& context,
                          const exec::OpenTreePlan& plan,
                          exec::HandedOutMount* mount);

// How FindHolders finds the top mount of a tree once it is handed out; `device`
// is that of its file system. Nothing where mounts have no unique ids.
Result<exec::HandedOutMount> IdentityOf(const Context& context,
                                        const UniqueFd& tree,
                                        std::uint64_t device);

}  // namespace mountd::propagation
