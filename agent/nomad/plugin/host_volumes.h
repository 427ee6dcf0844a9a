// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <vector>

#include "agent/driver/task_config.h"
#include "agent/types_grants.h"
#include "agent/types_mounts.h"

// Nomad names a host volume by its path in the client's configuration. mountd
// mounts a host volume of mountd.toml by its name, and so the volume reaches
// the task through the inbox, where ReplaceMount and Repair reach it, too.
namespace mountd::nomad {

struct HostVolumeMount {
  bool operator==(const HostVolumeMount&) const = default;

  std::size_t index = 0;  // in TaskConfig::mounts
  agent::BindMountSpec spec;
};

// Returns the task's mounts whose host_path is the path of a granted host
// volume. Where several volumes have that path, the one of the request's name
// is meant, or else one whose grant allows the mount. The names of the mounts
// depend on the volumes and the paths in the task alone, because Nomad sends a
// task's mounts in no order.
std::vector<HostVolumeMount> HostVolumeMountsOf(
    const driver::TaskConfig& config,
    const std::vector<agent::HostVolumeGrant>& granted);

}  // namespace mountd::nomad
