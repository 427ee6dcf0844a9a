// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-csi-proxy/identity_service.h"

#include "agent/mountd-csi-proxy/capabilities.h"

namespace mountd::csi_proxy {

namespace pb = ::csi::v1;

grpc::Status IdentityService::GetPluginInfo(
    grpc::ServerContext* context, const pb::GetPluginInfoRequest* /*request*/,
    pb::GetPluginInfoResponse* response) {
  return plugin_.AnswerFromStatus(
      "GetPluginInfo", *context,
      [&](const agent::PluginStatus& status) -> Result<void> {
        MOUNTD_TRY(CheckWasReady(status));
        response->set_name(status.provider);
        response->set_vendor_version(status.vendor_version);
        return Ok();
      });
}

grpc::Status IdentityService::GetPluginCapabilities(
    grpc::ServerContext* context,
    const pb::GetPluginCapabilitiesRequest* /*request*/,
    pb::GetPluginCapabilitiesResponse* response) {
  return plugin_.AnswerFromStatus(
      "GetPluginCapabilities", *context,
      [&](const agent::PluginStatus& status) -> Result<void> {
        MOUNTD_TRY(CheckWasReady(status));
        for (const auto type : ServicesOf(status)) {
          response->add_capabilities()->mutable_service()->set_type(type);
        }
        return Ok();
      });
}

grpc::Status IdentityService::Probe(grpc::ServerContext* context,
                                    const pb::ProbeRequest* /*request*/,
                                    pb::ProbeResponse* response) {
  return plugin_.AnswerFromStatus(
      "Probe", *context,
      [&](const agent::PluginStatus& status) -> Result<void> {
        if (status.state != "healthy" && status.state != "starting") {
          return MakeError(Code::kFailedPrecondition, "probe", status.id,
                           "is " + status.state + ": " + status.reason);
        }
        response->mutable_ready()->set_value(status.state == "healthy");
        return Ok();
      });
}

}  // namespace mountd::csi_proxy
