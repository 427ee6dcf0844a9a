// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.grpc.pb.h>

#include "agent/mountd-csi-proxy/proxied_plugin.h"

namespace mountd::csi_proxy {

// CSI's Node, without staging, which mountd does by itself. gRPC's threads call
// it.
class NodeService final : public ::csi::v1::Node::Service {
 public:
  // `plugin` outlives the service.
  explicit NodeService(ProxiedPlugin& plugin) : plugin_(plugin) {}

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
  grpc::Status NodeGetCapabilities(
      grpc::ServerContext* context,
      const ::csi::v1::NodeGetCapabilitiesRequest* request,
      ::csi::v1::NodeGetCapabilitiesResponse* response) override;
  // UNAVAILABLE until the plugin was ready once.
  grpc::Status NodeGetInfo(grpc::ServerContext* context,
                           const ::csi::v1::NodeGetInfoRequest* request,
                           ::csi::v1::NodeGetInfoResponse* response) override;

 private:
  // Answers an RPC about a published volume.
  template <typename Request, typename F>
  grpc::Status AnswerPublished(const char* rpc,
                               const grpc::ServerContext& context,
                               const Request& request, const F& work);

  ProxiedPlugin& plugin_;
};

}  // namespace mountd::csi_proxy
