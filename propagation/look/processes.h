// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/plan/holder_plans.h"
#include "propagation/ground/context.h"

namespace mountd::propagation {

// Finds the processes of an allocation that are still alive: those in the
// cgroup, in a cgroup beneath it, or in the network namespace. Enters no
// namespace and opens no file of theirs. If a process has threads in other
// namespaces, only the main thread counts. The errors are those of
// OpenUnlessEmpty.
Result<exec::HoldersState> FindProcesses(const Context& context,
                                         const exec::ProcessesPlan& plan);

}  // namespace mountd::propagation
