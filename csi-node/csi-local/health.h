// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.pb.h>

#include <vector>

#include "csi-node/csi-local/store.h"
#include "csi-node/csi-local/volume_mounts.h"

namespace mountd::csi_local {

using HealthEntry = ::csi::v1::VolumeHealth::VolumeHealthEntry;

// Returns a volume's faults, as far as its files and its mounts here show them:
// its directory or image is missing or cut short (DATA_LOSS), or its file
// system refuses writes (DEGRADED) or everything (INACCESSIBLE). Empty if there
// are none.
std::vector<HealthEntry> HealthOf(const DataDirectory& data,
                                  const VolumeRecord& record);

// Returns the same in the form of CSI 1.12 and earlier.
::csi::v1::VolumeCondition ToCondition(const std::vector<HealthEntry>& entries);

HealthEntry MakeHealth(::csi::v1::VolumeHealthErrorType status,
                       const char* reason, const char* message);

}  // namespace mountd::csi_local
