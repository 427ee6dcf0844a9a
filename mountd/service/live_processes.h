// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>

#include "mountd/executors/holder_report.h"
#include "mountd/service/service_parts.h"

// Finds out whether a process or a plugin of an allocation still runs.
namespace mountd {

// The processes or the plugin that were found.
struct LiveProcesses {
  std::string what;      // "processes in its cgroup", "plugin p of it answers"
  HolderReport holders;  // empty for a plugin
};

// Looks for the allocation's processes, in this order: an instance of a plugin
// of the allocation that answers; processes in its cgroup, if known, and in its
// network namespace. If its cgroup is not known, then also processes on the
// node that use one of its mounts or volumes. A cgroup that is gone has no
// process. Nothing if none was found, or if there was nothing to look at.
//
// An error means that the answer is unknown, because a search failed or did not
// see every process (DeadlineExceeded).
Result<std::optional<LiveProcesses>> FindLiveProcesses(
    const ServiceParts& parts, const AllocationRecord& record);

}  // namespace mountd
