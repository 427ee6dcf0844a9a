// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/node/volume_paths.h"

#include "mountd/base/paths.h"
#include "mountd/plan/wire.h"

namespace mountd::csi {

std::string StagingPart(const VolumeKey& key) {
  return std::string(paths::kStaging) + "/" + key.str();
}

std::string PublishPart(const VolumeKey& key, const std::string& allocation) {
  return std::string(paths::kPublish) + "/" + allocation + "/" + key.str();
}

exec::VolumeDirPlan StagingDir(const VolumeRecord& volume) {
  exec::VolumeDirPlan plan;
  plan.plugin = exec::ToWire(volume.plugin);
  plan.area = exec::VolumeArea::kStaging;
  plan.volume = volume.key.hex();
  return plan;
}

exec::VolumeDirPlan PublishDir(const VolumeRecord& volume,
                               const std::string& allocation) {
  exec::VolumeDirPlan plan = StagingDir(volume);
  plan.area = exec::VolumeArea::kPublish;
  plan.allocation = exec::ToWire(allocation);
  return plan;
}

std::string Described(const std::string& allocation, const std::string& alias) {
  return "volume " + allocation + "/" + alias;
}

}  // namespace mountd::csi
