// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "agent/driver/cgroups/task_cgroup.h"
#include "agent/driver/images/image_store.h"
#include "agent/driver/oci/host.h"
#include "agent/driver/oci/task_store.h"
#include "agent/driver/task_config.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {

// All that a shim needs to make a task's container.
struct ContainerPlan {
  Image image;
  UniqueFd user_namespace;
  UniqueFd network_namespace;  // not valid: the host's
  std::string overlay;         // the options of mount(2)
  std::vector<std::string> events;
};

// Prepares the image, the namespaces, the bundle and the upper directory of a
// task, and completes its record. Starts nothing. After an error the caller
// makes a new directory before it calls again.
Result<ContainerPlan> PlanContainer(Host& host, const TaskConfig& config,
                                    TaskPlace& place);

// podman's default.
inline constexpr std::uint32_t kDefaultPids = 2048;

// Returns the limits as the cgroup takes them. 0 or "" means no limit, except
// that 0 for pids_max means kDefaultPids. The result has a value for "no
// limit", too, so that an update removes an old limit.
CgroupLimits LimitsOf(const TaskResources& resources);

// The program and its arguments: the task's, or else the image's. An entrypoint
// of the task's takes the place of the image's entrypoint and command.
// InvalidArgument if neither says what to run.
Result<std::vector<std::string>> ArgumentsOf(const TaskConfig& config,
                                             const ImageConfig& image);

}  // namespace mountd::driver
