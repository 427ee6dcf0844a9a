// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The RPCs that mountd forwards unread.
#include "agent/mountd-csi-proxy/controller_forward.h"
#include "agent/mountd-csi-proxy/controller_service.h"

namespace mountd::csi_proxy {

namespace pb = ::csi::v1;

grpc::Status ControllerService::CreateSnapshot(
    grpc::ServerContext* context, const pb::CreateSnapshotRequest* request,
    pb::CreateSnapshotResponse* response) {
  return Forward(plugin_, "CreateSnapshot", *context, *request, response);
}

grpc::Status ControllerService::DeleteSnapshot(
    grpc::ServerContext* context, const pb::DeleteSnapshotRequest* request,
    pb::DeleteSnapshotResponse* response) {
  return Forward(plugin_, "DeleteSnapshot", *context, *request, response);
}

grpc::Status ControllerService::ListSnapshots(
    grpc::ServerContext* context, const pb::ListSnapshotsRequest* request,
    pb::ListSnapshotsResponse* response) {
  return Forward(plugin_, "ListSnapshots", *context, *request, response);
}

grpc::Status ControllerService::GetSnapshot(
    grpc::ServerContext* context, const pb::GetSnapshotRequest* request,
    pb::GetSnapshotResponse* response) {
  return Forward(plugin_, "GetSnapshot", *context, *request, response);
}

grpc::Status ControllerService::ControllerGetVolume(
    grpc::ServerContext* context, const pb::ControllerGetVolumeRequest* request,
    pb::ControllerGetVolumeResponse* response) {
  return Forward(plugin_, "ControllerGetVolume", *context, *request, response);
}

grpc::Status ControllerService::ControllerModifyVolume(
    grpc::ServerContext* context,
    const pb::ControllerModifyVolumeRequest* request,
    pb::ControllerModifyVolumeResponse* response) {
  return Forward(plugin_, "ControllerModifyVolume", *context, *request,
                 response);
}

grpc::Status ControllerService::ControllerListVolumeHealth(
    grpc::ServerContext* context,
    const pb::ControllerListVolumeHealthRequest* request,
    pb::ControllerListVolumeHealthResponse* response) {
  return Forward(plugin_, "ControllerListVolumeHealth", *context, *request,
                 response);
}

grpc::Status ControllerService::ControllerGetVolumeHealth(
    grpc::ServerContext* context,
    const pb::ControllerGetVolumeHealthRequest* request,
    pb::ControllerGetVolumeHealthResponse* response) {
  return Forward(plugin_, "ControllerGetVolumeHealth", *context, *request,
                 response);
}

}  // namespace mountd::csi_proxy
