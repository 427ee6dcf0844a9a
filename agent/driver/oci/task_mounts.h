// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "agent/driver/bundle/config.h"
#include "agent/driver/oci/host.h"
#include "agent/driver/oci/task_store.h"
#include "agent/driver/task_config.h"
#include "mountd/base/result.h"

namespace mountd::driver {

// The interface by which mountd names a network of the mode "driver".
inline constexpr char kLoopback[] = "lo";
// The network's label that has the host name of the allocation's tasks.
inline constexpr char kHostnameLabel[] = "hostname";

// Adds the task's directories, mounts, and files of the network to the
// container. A mount that is in the task's inbox becomes a link into the inbox,
// so that ReplaceMount and Repair reach the running task. `rootfs` is the
// image.
Result<void> AddTaskMounts(Host& host, const TaskConfig& config, int rootfs,
                           const TaskPlace& place, ContainerConfig* container);

}  // namespace mountd::driver
