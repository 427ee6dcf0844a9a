// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.grpc.pb.h>

#include "agent/mountd-csi-proxy/proxied_plugin.h"

namespace mountd::csi_proxy {

// CSI's GroupController, which mountd forwards unread. gRPC's threads call it.
class GroupService final : public ::csi::v1::GroupController::Service {
 public:
  // `plugin` outlives the service.
  explicit GroupService(ProxiedPlugin& plugin) : plugin_(plugin) {}

  grpc::Status GroupControllerGetCapabilities(
      grpc::ServerContext* context,
      const ::csi::v1::GroupControllerGetCapabilitiesRequest* request,
      ::csi::v1::GroupControllerGetCapabilitiesResponse* response) override;
  grpc::Status CreateVolumeGroupSnapshot(
      grpc::ServerContext* context,
      const ::csi::v1::CreateVolumeGroupSnapshotRequest* request,
      ::csi::v1::CreateVolumeGroupSnapshotResponse* response) override;
  grpc::Status DeleteVolumeGroupSnapshot(
      grpc::ServerContext* context,
      const ::csi::v1::DeleteVolumeGroupSnapshotRequest* request,
      ::csi::v1::DeleteVolumeGroupSnapshotResponse* response) override;
  grpc::Status GetVolumeGroupSnapshot(
      grpc::ServerContext* context,
      const ::csi::v1::GetVolumeGroupSnapshotRequest* request,
      ::csi::v1::GetVolumeGroupSnapshotResponse* response) override;

 private:
  ProxiedPlugin& plugin_;
};

}  // namespace mountd::csi_proxy
