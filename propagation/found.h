// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <vector>

#include "propagation/context.h"

namespace mountd::propagation {

// Allocations' directories and the mounts right in their inboxes, by the
// kernel's word alone. For a start, as it looks at each. What cannot be looked
// at is left out: its release tells why.
Result<std::vector<exec::FoundTarget>> ListTargets(const Context& context);

}  // namespace mountd::propagation
