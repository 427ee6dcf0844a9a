// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/plan/plugin_plans.h"
#include "mountd/store/records.h"

// The places of a volume on this node: one staging directory (CSI spec,
// NodeStageVolume: one per volume), and a target for each allocation. Paths are
// relative to the plugin's directory, because the plugin may see that directory
// at another path than the host.
namespace mountd::csi {

std::string StagingPart(const VolumeKey& key);
std::string PublishPart(const VolumeKey& key, const std::string& allocation);

exec::VolumeDirPlan StagingDir(const VolumeRecord& volume);
exec::VolumeDirPlan PublishDir(const VolumeRecord& volume,
                               const std::string& allocation);

// Returns "volume web/data", for errors.
std::string Described(const std::string& allocation, const std::string& alias);

}  // namespace mountd::csi
