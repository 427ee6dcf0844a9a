// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.pb.h>

#include "csi-node/ipc/message.h"
#include "csi-node/types/csi_client.h"
#include "csi-node/types/secrets.h"

// Converts between the plain values of csi-node/types/ and CSI's messages.
// Checks a plugin's values against the bounds of ipc/message.h. A value beyond
// its bound is a kInternal error, and is never cut to fit.
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
pb::NodeGetVolumeHealthRequest ToHealthRequest(
    const ipc::StatsRequest& request);

// Takes an absent `ready` for ready.
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
// Leaves out usage in an unknown unit. Cuts and scrubs the condition's message
// as an error's text.
RpcResult<VolumeStats> FromProto(
    const pb::NodeGetVolumeStatsResponse& response);
// Returns only a condition, which is abnormal if the plugin lists anything.
RpcResult<VolumeStats> FromProto(
    const pb::NodeGetVolumeHealthResponse& response);

// Overwrites the secrets' values in a request that has been sent.
void WipeSecrets(google::protobuf::Map<std::string, std::string>* secrets);

}  // namespace mountd::csi
