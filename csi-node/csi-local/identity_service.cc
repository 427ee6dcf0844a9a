// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/identity_service.h"

namespace mountd::csi_local {

grpc::Status IdentityService::GetPluginInfo(
    grpc::ServerContext* /*context*/,
    const ::csi::v1::GetPluginInfoRequest* /*request*/,
    ::csi::v1::GetPluginInfoResponse* response) {
  response->set_name("csi-local.mountd.org");
  response->set_vendor_version(CSI_LOCAL_VERSION);
  return grpc::Status::OK;
}

grpc::Status IdentityService::GetPluginCapabilities(
    grpc::ServerContext* /*context*/,
    const ::csi::v1::GetPluginCapabilitiesRequest* /*request*/,
    ::csi::v1::GetPluginCapabilitiesResponse* response) {
  using Capability = ::csi::v1::PluginCapability;
  for (const auto type :
       {Capability::Service::CONTROLLER_SERVICE,
        Capability::Service::VOLUME_ACCESSIBILITY_CONSTRAINTS,
        Capability::Service::SNAPSHOT_ACCESSIBILITY_CONSTRAINTS}) {
    response->add_capabilities()->mutable_service()->set_type(type);
  }
  response->add_capabilities()->mutable_volume_expansion()->set_type(
      Capability::VolumeExpansion::ONLINE);
  return grpc::Status::OK;
}

grpc::Status IdentityService::Probe(grpc::ServerContext* /*context*/,
                                    const ::csi::v1::ProbeRequest* /*request*/,
                                    ::csi::v1::ProbeResponse* response) {
  response->mutable_ready()->set_value(true);
  return grpc::Status::OK;
}

}  // namespace mountd::csi_local
