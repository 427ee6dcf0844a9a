// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/context.h"

namespace mountd::propagation {

// Looks for processes that are in the cgroup, or one beneath it, or in the
// network namespace: what of an allocation still lives. Enters no namespace,
// and opens nothing of theirs; of a process with threads elsewhere its first
// counts. The errors are OpenCgroup's.
Result<exec::HoldersState> FindProcesses(const Context& context,
                                         const exec::ProcessesPlan& plan);

}  // namespace mountd::propagation
