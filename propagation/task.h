// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/context.h"

namespace mountd::propagation {

// What the process that `pidfd` is of sees of the plan's mounts: for each the
// mount in its own mount namespace that shows the same directory and has most
// in common with it. Reads its mountinfo; enters nothing, opens nothing of its.
Result<exec::TaskState> VerifyTask(const Context& context,
                                   const exec::VerifyTaskPlan& plan, int pidfd);

}  // namespace mountd::propagation
