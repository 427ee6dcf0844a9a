// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>

#include "mountd/executors/holder_report.h"
#include "mountd/service/service_parts.h"

// Finds out whether anything of an allocation still runs.
namespace mountd {

// The live thing that was found.
struct LiveProcesses {
  std::string what;      // "processes in its cgroup", "plugin p of it answers"
  HolderReport holders;  // empty for a plugin
};

// Looks for live things of the allocation, in this order: a plugin of it that
// answers; processes in its cgroup, if known, and in its network namespace;
// and, if its cgroup is not known, processes on the node that use one of its
// mounts or volumes. A cgroup that is gone has no process. Nothing if none was
// found, also if there was nothing to look at.
//
// An error means that the answer is unknown: a search failed, or did not see
// everything (DeadlineExceeded).
Result<std::optional<LiveProcesses>> FindLiveProcesses(
    const ServiceParts& parts, const AllocationRecord& record);

}  // namespace mountd
