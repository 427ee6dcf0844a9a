// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>

#include "mountd/holders.h"
#include "mountd/service_parts.h"

// Whether anything of an allocation still runs.
namespace mountd {

// What lives.
struct LiveProcesses {
  std::string what;      // "processes in its cgroup", "plugin p of it answers"
  HolderReport holders;  // empty of a plugin
};

// Looks, in this order, for a plugin of the allocation's that answers; for
// processes in its cgroup, where that is known, and in its network namespace;
// and, where the cgroup is not known, for who on the node uses one of its
// mounts or volumes. A cgroup that has gone has no process. Nothing: none of
// them found any, also where there was nothing to look at.
//
// An error means that it cannot be told: a search failed, or did not see all
// there is (DeadlineExceeded).
Result<std::optional<LiveProcesses>> FindLiveProcesses(
    const ServiceParts& parts, const AllocationRecord& record);

}  // namespace mountd
