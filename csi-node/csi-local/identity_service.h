// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.grpc.pb.h>

namespace mountd::csi_local {

class IdentityService final : public ::csi::v1::Identity::Service {
 public:
  grpc::Status GetPluginInfo(
      grpc::ServerContext* context,
      const ::csi::v1::GetPluginInfoRequest* request,
      ::csi::v1::GetPluginInfoResponse* response) override;
  grpc::Status GetPluginCapabilities(
      grpc::ServerContext* context,
      const ::csi::v1::GetPluginCapabilitiesRequest* request,
      ::csi::v1::GetPluginCapabilitiesResponse* response) override;
  grpc::Status Probe(grpc::ServerContext* context,
                     const ::csi::v1::ProbeRequest* request,
                     ::csi::v1::ProbeResponse* response) override;
};

}  // namespace mountd::csi_local
