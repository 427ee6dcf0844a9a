// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/base.h"

// The files base/d/<allocation>/{hosts,hostname,resolv.conf}, which tasks get
// as mounts. What is in them mountd has composed; nothing of it is read here.
namespace mountd::propagation {

// 0644 root:root in a directory 0710 root:<gid>, with what the memfd `content`
// holds. One that is there is replaced.
Result<void> WriteNetworkFile(const Context& context,
                              const exec::NetworkFilePlan& plan, int content,
                              const exec::Tell<exec::MountState>& tell);

// All of the allocation's, and the directory. None is success; tasks that have
// them keep them.
Result<void> RemoveNetworkFiles(const Context& context,
                                const exec::NetworkFilePlan& plan);

}  // namespace mountd::propagation
