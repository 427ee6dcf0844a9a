// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/plan/task_plans.h"
#include "propagation/ground/context.h"

namespace mountd::propagation {

// Compares the plan's mounts with what the process of `pidfd` sees. Picks for
// each of them the mount in the process's mount namespace that shows the same
// directory and has most in common with it. Reads the process's mountinfo;
// enters no namespace and opens no file of the process's.
Result<exec::TaskState> VerifyTask(const Context& context,
                                   const exec::VerifyTaskPlan& plan, int pidfd);

}  // namespace mountd::propagation
