// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/base.h"

// The files base/d/<allocation>/{hosts,hostname,resolv.conf}, which tasks get
// as mounts. What is in them mountd has composed; nothing of it is read here.
namespace mountd::propagation {

// 0644 root:root in a directory that the plan's user alone may pass through
// (propagation/passage.h), with what the memfd `content` holds. One that is
// there is replaced.
Result<void> WriteNetworkFile(const Context& context,
                              const exec::NetworkFilePlan& plan, int content,
                              const exec::Tell<exec::MountState>& tell);

// Lets nobody but the plan's user pass through the directory, if it is there:
// a mountd before this one may have let a group. None is success.
Result<void> CloseNetworkFiles(const Context& context, const Base& base,
                               const exec::AllocationPlan& plan);

// All of the allocation's, and the directory. None is success; tasks that have
// them keep them.
Result<void> RemoveNetworkFiles(const Context& context,
                                const exec::NetworkFilePlan& plan);

}  // namespace mountd::propagation
