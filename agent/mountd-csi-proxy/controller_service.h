// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.grpc.pb.h>

#include "agent/mountd-csi-proxy/proxied_plugin.h"

namespace mountd::csi_proxy {

// CSI's Controller. mountd has methods of its own for the first RPCs, and
// forwards the other ones unread. gRPC's threads call it.
class ControllerService final : public ::csi::v1::Controller::Service {
 public:
  // `plugin` outlives the service.
  explicit ControllerService(ProxiedPlugin& plugin) : plugin_(plugin) {}

  grpc::Status CreateVolume(grpc::ServerContext* context,
                            const ::csi::v1::CreateVolumeRequest* request,
                            ::csi::v1::CreateVolumeResponse* response) override;
  grpc::Status DeleteVolume(grpc::ServerContext* context,
                            const ::csi::v1::DeleteVolumeRequest* request,
                            ::csi::v1::DeleteVolumeResponse* response) override;
  grpc::Status ControllerPublishVolume(
      grpc::ServerContext* context,
      const ::csi::v1::ControllerPublishVolumeRequest* request,
      ::csi::v1::ControllerPublishVolumeResponse* response) override;
  grpc::Status ControllerUnpublishVolume(
      grpc::ServerContext* context,
      const ::csi::v1::ControllerUnpublishVolumeRequest* request,
      ::csi::v1::ControllerUnpublishVolumeResponse* response) override;
  grpc::Status ValidateVolumeCapabilities(
      grpc::ServerContext* context,
      const ::csi::v1::ValidateVolumeCapabilitiesRequest* request,
      ::csi::v1::ValidateVolumeCapabilitiesResponse* response) override;
  grpc::Status ListVolumes(grpc::ServerContext* context,
                           const ::csi::v1::ListVolumesRequest* request,
                           ::csi::v1::ListVolumesResponse* response) override;
  grpc::Status GetCapacity(grpc::ServerContext* context,
                           const ::csi::v1::GetCapacityRequest* request,
                           ::csi::v1::GetCapacityResponse* response) override;
  grpc::Status ControllerGetCapabilities(
      grpc::ServerContext* context,
      const ::csi::v1::ControllerGetCapabilitiesRequest* request,
      ::csi::v1::ControllerGetCapabilitiesResponse* response) override;
  grpc::Status ControllerExpandVolume(
      grpc::ServerContext* context,
      const ::csi::v1::ControllerExpandVolumeRequest* request,
      ::csi::v1::ControllerExpandVolumeResponse* response) override;

  grpc::Status CreateSnapshot(
      grpc::ServerContext* context,
      const ::csi::v1::CreateSnapshotRequest* request,
      ::csi::v1::CreateSnapshotResponse* response) override;
  grpc::Status DeleteSnapshot(
      grpc::ServerContext* context,
      const ::csi::v1::DeleteSnapshotRequest* request,
      ::csi::v1::DeleteSnapshotResponse* response) override;
  grpc::Status ListSnapshots(
      grpc::ServerContext* context,
      const ::csi::v1::ListSnapshotsRequest* request,
      ::csi::v1::ListSnapshotsResponse* response) override;
  grpc::Status GetSnapshot(grpc::ServerContext* context,
                           const ::csi::v1::GetSnapshotRequest* request,
                           ::csi::v1::GetSnapshotResponse* response) override;
  grpc::Status ControllerGetVolume(
      grpc::ServerContext* context,
      const ::csi::v1::ControllerGetVolumeRequest* request,
      ::csi::v1::ControllerGetVolumeResponse* response) override;
  grpc::Status ControllerModifyVolume(
      grpc::ServerContext* context,
      const ::csi::v1::ControllerModifyVolumeRequest* request,
      ::csi::v1::ControllerModifyVolumeResponse* response) override;
  grpc::Status ControllerListVolumeHealth(
      grpc::ServerContext* context,
      const ::csi::v1::ControllerListVolumeHealthRequest* request,
      ::csi::v1::ControllerListVolumeHealthResponse* response) override;
  grpc::Status ControllerGetVolumeHealth(
      grpc::ServerContext* context,
      const ::csi::v1::ControllerGetVolumeHealthRequest* request,
      ::csi::v1::ControllerGetVolumeHealthResponse* response) override;

 private:
  ProxiedPlugin& plugin_;
};

}  // namespace mountd::csi_proxy
