// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.pb.h>

#include <vector>

#include "agent/types_controller.h"
#include "mountd/base/result.h"

// Converts the controller's values between CSI's messages and the client
// library's types.
namespace mountd::csi_proxy {

// InvalidArgument without a name or a capability. The secrets stay out.
Result<agent::VolumeCreation> CreationOf(
    const ::csi::v1::CreateVolumeRequest& request);

// InvalidArgument if a capability is none (UsageOf).
Result<std::vector<agent::VolumeUsage>> UsagesOf(
    const google::protobuf::RepeatedPtrField<::csi::v1::VolumeCapability>&
        capabilities);

// InvalidArgument for a negative number of entries.
Result<agent::PageRequest> PageOf(const ::csi::v1::ListVolumesRequest& request);

void Fill(const agent::PluginVolume& volume, ::csi::v1::Volume* to);
void Fill(const agent::PluginVolumePage& page,
          ::csi::v1::ListVolumesResponse* to);
void Fill(const agent::PluginCapacity& capacity,
          ::csi::v1::GetCapacityResponse* to);

}  // namespace mountd::csi_proxy
