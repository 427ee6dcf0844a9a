// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mountd/service/caller_access.h"
#include "mountd/service/mount_admission.h"
#include "mountd/service/service_parts.h"
#include "mountd/service/teardowns.h"

namespace mountd {

struct VolumeStatus {
  VolumeRecord record;
  std::vector<PublicationRecord> users;
  // The condition that the plugin reported last; nullopt: unknown.
  std::optional<csi::VolumeCondition> condition{};
};

// Owns nothing; publishes, unpublishes, expands and shows allocations' volumes.
// Runs on workers, on the strand of the allocation that the call names. Never
// logs an error that it returns.
class VolumeVerbs {
 public:
  VolumeVerbs(const ServiceParts& parts, const CallerAccess& access,
              Teardowns& teardowns, const MountAdmission& admission)
      : parts_(parts),
        access_(access),
        teardowns_(teardowns),
        admission_(admission) {}

  Result<csi::PublishedVolume> PublishVolume(const CallContext& call,
                                             csi::PublishSpec spec,
                                             const UniqueFd& secrets);
  Result<void> UnpublishVolume(const CallContext& call, const Name& allocation,
                               const Name& alias,
                               OnTasks on_tasks = OnTasks::kRefuse);
  Result<std::vector<VolumeStatus>> ListVolumes(const CallContext& call);
  Result<std::int64_t> ExpandVolume(const CallContext& call,
                                    const csi::Volumes::ExpandSpec& spec,
                                    const UniqueFd& secrets);
  Result<csi::VolumeStats> GetVolumeStats(const CallContext& call,
                                          const Name& allocation,
                                          const Name& alias);
  // Swaps tasks' mounts of the volume after the plugin has published it again.
  // Runs on the allocation's strand.
  Result<void> RepairMountsOf(const PublicationRecord& publication);

 private:
  Result<void> RepairOne(const AllocationRecord& owner,
                         const BindMountRequest& request);

  const ServiceParts& parts_;
  const CallerAccess& access_;
  Teardowns& teardowns_;
  const MountAdmission& admission_;
};

}  // namespace mountd
