// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.pb.h>

#include "csi-node/csi_client.h"
#include "csi-node/ipc/message.h"
#include "csi-node/secrets.h"

// Between the seam's plain values and CSI's messages. What comes from a plugin
// is checked against the bounds of ipc/message.h; an answer beyond them is a
// kInternal error, never cut to fit.
namespace mountd::csi {

namespace pb = ::csi::v1;

pb::NodeStageVolumeRequest ToProto(const StageRequest& request,
                                   const Secrets& secrets);
pb::NodePublishVolumeRequest ToProto(const PublishRequest& request,
                                     const Secrets& secrets);
pb::NodeUnstageVolumeRequest ToProto(const ipc::UnstageRequest& request);
pb::NodeUnpublishVolumeRequest ToProto(const ipc::UnpublishRequest& request);
pb::NodeExpandVolumeRequest ToProto(const ExpandRequest& request,
                                    const Secrets& secrets);
pb::NodeGetVolumeStatsRequest ToProto(const ipc::StatsRequest& request);

// An absent `ready` means ready.
RpcResult<ipc::ProbeResult> FromProto(const pb::ProbeResponse& response);
RpcResult<PluginInfo> FromProto(const pb::GetPluginInfoResponse& response);
RpcResult<NodeInfo> FromProto(const pb::NodeGetInfoResponse& response);
RpcResult<std::vector<int>> FromProto(
    const pb::GetPluginCapabilitiesResponse& response);
RpcResult<std::vector<int>> FromProto(
    const pb::ControllerGetCapabilitiesResponse& response);
RpcResult<std::vector<int>> FromProto(
    const pb::NodeGetCapabilitiesResponse& response);
RpcResult<ipc::ExpandResult> FromProto(
    const pb::NodeExpandVolumeResponse& response);
// Usage of a unit that is not known is left out; the condition's message is
// cut and cleaned as an error's.
RpcResult<VolumeStats> FromProto(
    const pb::NodeGetVolumeStatsResponse& response);

// Overwrites the secrets' values in a request that has been sent.
void WipeSecrets(google::protobuf::Map<std::string, std::string>* secrets);

}  // namespace mountd::csi
