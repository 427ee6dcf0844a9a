// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/plan/network_plans.h"
#include "propagation/ground/base.h"

// The files base/d/<allocation>/{hosts,hostname,resolv.conf}, which tasks get
// as mounts. mountd writes their text; the executor does not read it.
namespace mountd::propagation {

// Writes the bytes of the memfd `content` to the file, 0644 root:root, in a
// directory that only the plan's user may pass (propagation/ground/passage.h).
// Replaces a file that is already there.
Result<void> WriteNetworkFile(const Context& context,
                              const exec::NetworkFilePlan& plan, int content,
                              const exec::Tell<exec::MountState>& tell);

// Lets only the plan's user pass the directory, because older releases of
// mountd let a group pass. A missing directory is success.
Result<void> CloseNetworkFiles(const Context& context, const Base& base,
                               const exec::AllocationPlan& plan);

// Removes all files of the allocation and the directory. A missing directory is
// success. Tasks that have the files mounted keep them.
Result<void> RemoveNetworkFiles(const Context& context,
                                const exec::NetworkFilePlan& plan);

}  // namespace mountd::propagation
