// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/exec/plan.h"
#include "mountd/store/records.h"

// Where a volume is on this node: one staging directory (CSI spec,
// NodeStageVolume: one per volume), and a target for each allocation. Relative
// to the plugin's directory, which the plugin may see elsewhere than the host.
namespace mountd::csi {

std::string StagingPart(const VolumeKey& key);
std::string PublishPart(const VolumeKey& key, const std::string& allocation);

exec::VolumeDirPlan StagingDir(const VolumeRecord& volume);
exec::VolumeDirPlan PublishDir(const VolumeRecord& volume,
                               const std::string& allocation);

// "volume web/data", for errors.
std::string Described(const std::string& allocation, const std::string& alias);

}  // namespace mountd::csi
