// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <vector>

#include "propagation/ground/context.h"

namespace mountd::propagation {

// Lists allocations' directories and the mounts right in their inboxes, as the
// kernel reports them. Only a start of mountd uses this, because the function
// looks at each entry. Leaves out what cannot be read: the release of such an
// entry reports the error.
Result<std::vector<exec::FoundTarget>> ListTargets(const Context& context);

}  // namespace mountd::propagation
