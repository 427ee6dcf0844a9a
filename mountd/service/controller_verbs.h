// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/unique_fd.h"
#include "mountd/service/caller_access.h"
#include "mountd/service/service_parts.h"

namespace mountd {

// Owns nothing. Passes calls on to the controllers of CSI plugins, for agents
// that decide about volumes on any node. So these calls need no allocation.
// Runs on workers. Never keeps a record.
class ControllerVerbs {
 public:
  ControllerVerbs(const ServiceParts& parts, const CallerAccess& access)
      : parts_(parts), access_(access) {}

  Result<StringMap> ControllerPublish(
      const CallContext& call, const std::string& plugin,
      const csi::ControllerPublishRequest& request, const UniqueFd& secrets);
  Result<void> ControllerUnpublish(
      const CallContext& call, const std::string& plugin,
      const csi::ControllerUnpublishRequest& request, const UniqueFd& secrets);
  Result<csi::Validation> ValidateVolume(const CallContext& call,
                                         const std::string& plugin,
                                         const csi::ValidateRequest& request,
                                         const UniqueFd& secrets);
  Result<csi::ControllerVolume> CreateVolume(
      const CallContext& call, const std::string& plugin,
      const csi::CreateVolumeRequest& request, const UniqueFd& secrets);
  Result<void> DeleteVolume(const CallContext& call, const std::string& plugin,
                            const csi::DeleteVolumeRequest& request,
                            const UniqueFd& secrets);
  Result<csi::ControllerExpansion> ControllerExpand(
      const CallContext& call, const std::string& plugin,
      const csi::ControllerExpandRequest& request, const UniqueFd& secrets);
  Result<csi::VolumePage> ListPluginVolumes(
      const CallContext& call, const std::string& plugin,
      const csi::ListVolumesRequest& request, const UniqueFd& secrets);
  Result<csi::Capacity> GetCapacity(const CallContext& call,
                                    const std::string& plugin,
                                    const csi::GetCapacityRequest& request,
                                    const UniqueFd& secrets);
  Result<std::string> CallController(const CallContext& call,
                                     const std::string& plugin,
                                     const std::string& rpc,
                                     const std::string& request,
                                     const UniqueFd& secrets);

 private:
  const ServiceParts& parts_;
  const CallerAccess& access_;
};

}  // namespace mountd
