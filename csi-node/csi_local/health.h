// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.pb.h>

#include <vector>

#include "csi-node/csi_local/store.h"
#include "csi-node/csi_local/volume_mounts.h"

namespace mountd::csi_local {

using HealthEntry = ::csi::v1::VolumeHealth::VolumeHealthEntry;

// What is wrong with a volume, as far as its files and its mounts here tell:
// its directory or image is gone or cut short (DATA_LOSS), its file system
// refuses writes (DEGRADED) or all (INACCESSIBLE). Empty: nothing.
std::vector<HealthEntry> HealthOf(const DataDirectory& data,
                                  const VolumeRecord& record);

// The same as CSI 1.12 and before say it.
::csi::v1::VolumeCondition ToCondition(const std::vector<HealthEntry>& entries);

HealthEntry MakeHealth(::csi::v1::VolumeHealthErrorType status,
                       const char* reason, const char* message);

}  // namespace mountd::csi_local
