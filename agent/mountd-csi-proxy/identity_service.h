// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.grpc.pb.h>

#include "agent/mountd-csi-proxy/proxied_plugin.h"

namespace mountd::csi_proxy {

// CSI's Identity: name, version and state of the real plugin, as mountd knows
// them. gRPC's threads call it.
class IdentityService final : public ::csi::v1::Identity::Service {
 public:
  // `plugin` outlives the service.
  explicit IdentityService(ProxiedPlugin& plugin) : plugin_(plugin) {}

  // UNAVAILABLE until the plugin was ready once.
  grpc::Status GetPluginInfo(
      grpc::ServerContext* context,
      const ::csi::v1::GetPluginInfoRequest* request,
      ::csi::v1::GetPluginInfoResponse* response) override;
  grpc::Status GetPluginCapabilities(
      grpc::ServerContext* context,
      const ::csi::v1::GetPluginCapabilitiesRequest* request,
      ::csi::v1::GetPluginCapabilitiesResponse* response) override;
  // Says "not ready" while the plugin starts. FAILED_PRECONDITION, with
  // mountd's reason, for a plugin that is unhealthy or gone.
  grpc::Status Probe(grpc::ServerContext* context,
                     const ::csi::v1::ProbeRequest* request,
                     ::csi::v1::ProbeResponse* response) override;

 private:
  ProxiedPlugin& plugin_;
};

}  // namespace mountd::csi_proxy
