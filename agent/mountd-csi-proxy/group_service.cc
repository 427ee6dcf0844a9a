// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-csi-proxy/group_service.h"

#include "agent/mountd-csi-proxy/controller_forward.h"

namespace mountd::csi_proxy {

namespace pb = ::csi::v1;

grpc::Status GroupService::GroupControllerGetCapabilities(
    grpc::ServerContext* context,
    const pb::GroupControllerGetCapabilitiesRequest* request,
    pb::GroupControllerGetCapabilitiesResponse* response) {
  return Forward(plugin_, "GroupControllerGetCapabilities", *context, *request,
                 response);
}

grpc::Status GroupService::CreateVolumeGroupSnapshot(
    grpc::ServerContext* context,
    const pb::CreateVolumeGroupSnapshotRequest* request,
    pb::CreateVolumeGroupSnapshotResponse* response) {
  return Forward(plugin_, "CreateVolumeGroupSnapshot", *context, *request,
                 response);
}

grpc::Status GroupService::DeleteVolumeGroupSnapshot(
    grpc::ServerContext* context,
    const pb::DeleteVolumeGroupSnapshotRequest* request,
    pb::DeleteVolumeGroupSnapshotResponse* response) {
  return Forward(plugin_, "DeleteVolumeGroupSnapshot", *context, *request,
                 response);
}

grpc::Status GroupService::GetVolumeGroupSnapshot(
    grpc::ServerContext* context,
    const pb::GetVolumeGroupSnapshotRequest* request,
    pb::GetVolumeGroupSnapshotResponse* response) {
  return Forward(plugin_, "GetVolumeGroupSnapshot", *context, *request,
                 response);
}

}  // namespace mountd::csi_proxy
