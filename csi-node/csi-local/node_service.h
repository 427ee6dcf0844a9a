// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.grpc.pb.h>

#include <string>
#include <utility>

#include "csi-node/csi-local/node_volumes.h"
#include "csi-node/csi-local/store.h"
#include "csi-node/csi-local/topology.h"

namespace mountd::csi_local {

// Serves the Node service: checks requests, and has NodeVolumes do the work.
// Ignores secrets and contexts. gRPC's threads call it, several at once.
class NodeService final : public ::csi::v1::Node::Service {
 public:
  // `store` and `volumes` outlive the service.
  NodeService(Store* store, NodeVolumes* volumes, std::string node_id)
      : store_(store), volumes_(volumes), node_id_(std::move(node_id)) {}

  grpc::Status NodeStageVolume(
      grpc::ServerContext* context,
      const ::csi::v1::NodeStageVolumeRequest* request,
      ::csi::v1::NodeStageVolumeResponse* response) override;
  grpc::Status NodeUnstageVolume(
      grpc::ServerContext* context,
      const ::csi::v1::NodeUnstageVolumeRequest* request,
      ::csi::v1::NodeUnstageVolumeResponse* response) override;
  grpc::Status NodePublishVolume(
      grpc::ServerContext* context,
      const ::csi::v1::NodePublishVolumeRequest* request,
      ::csi::v1::NodePublishVolumeResponse* response) override;
  grpc::Status NodeUnpublishVolume(
      grpc::ServerContext* context,
      const ::csi::v1::NodeUnpublishVolumeRequest* request,
      ::csi::v1::NodeUnpublishVolumeResponse* response) override;
  grpc::Status NodeGetVolumeStats(
      grpc::ServerContext* context,
      const ::csi::v1::NodeGetVolumeStatsRequest* request,
      ::csi::v1::NodeGetVolumeStatsResponse* response) override;
  grpc::Status NodeExpandVolume(
      grpc::ServerContext* context,
      const ::csi::v1::NodeExpandVolumeRequest* request,
      ::csi::v1::NodeExpandVolumeResponse* response) override;
  grpc::Status NodeGetVolumeHealth(
      grpc::ServerContext* context,
      const ::csi::v1::NodeGetVolumeHealthRequest* request,
      ::csi::v1::NodeGetVolumeHealthResponse* response) override;
  grpc::Status NodeGetStorageHealth(
      grpc::ServerContext* context,
      const ::csi::v1::NodeGetStorageHealthRequest* request,
      ::csi::v1::NodeGetStorageHealthResponse* response) override;
  grpc::Status NodeGetCapabilities(
      grpc::ServerContext* context,
      const ::csi::v1::NodeGetCapabilitiesRequest* request,
      ::csi::v1::NodeGetCapabilitiesResponse* response) override;
  grpc::Status NodeGetInfo(grpc::ServerContext* context,
                           const ::csi::v1::NodeGetInfoRequest* request,
                           ::csi::v1::NodeGetInfoResponse* response) override;

 private:
  Store* store_;
  NodeVolumes* volumes_;
  const std::string node_id_;
};

}  // namespace mountd::csi_local
