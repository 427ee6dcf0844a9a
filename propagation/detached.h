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
                          const exec::OpenTreePlan& plan);

}  // namespace mountd::propagation
