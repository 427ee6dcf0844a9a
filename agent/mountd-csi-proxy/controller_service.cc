// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-csi-proxy/controller_service.h"

#include "agent/mountd-csi-proxy/capabilities.h"
#include "agent/mountd-csi-proxy/controller_values.h"

namespace mountd::csi_proxy {

namespace pb = ::csi::v1;

grpc::Status ControllerService::CreateVolume(
    grpc::ServerContext* context, const pb::CreateVolumeRequest* request,
    pb::CreateVolumeResponse* response) {
  return plugin_.Answer(
      "CreateVolume", *context, *request,
      [&](agent::Client& client, const RpcTime& /*time*/) -> Result<void> {
        MOUNTD_ASSIGN(agent::VolumeCreation creation, CreationOf(*request));
        creation.plugin = plugin_.name();
        const LentSecrets secrets(request->secrets(), creation.secrets);
        MOUNTD_ASSIGN(const agent::PluginVolume volume,
                      client.CreateVolume(creation));
        Fill(volume, response->mutable_volume());
        return Ok();
      });
}

grpc::Status ControllerService::DeleteVolume(
    grpc::ServerContext* context, const pb::DeleteVolumeRequest* request,
    pb::DeleteVolumeResponse* /*response*/) {
  return plugin_.Answer(
      "DeleteVolume", *context, *request,
      [&](agent::Client& client, const RpcTime& /*time*/) -> Result<void> {
        MOUNTD_TRY(CheckVolume(request->volume_id()));
        const Secrets secrets(request->secrets());
        return client.DeleteVolume(plugin_.name(), request->volume_id(),
                                   secrets.map());
      });
}

grpc::Status ControllerService::ControllerPublishVolume(
    grpc::ServerContext* context,
    const pb::ControllerPublishVolumeRequest* request,
    pb::ControllerPublishVolumeResponse* response) {
  return plugin_.Answer(
      "ControllerPublishVolume", *context, *request,
      [&](agent::Client& client, const RpcTime& /*time*/) -> Result<void> {
        MOUNTD_TRY(CheckVolume(request->volume_id()));
        if (request->node_id().empty()) {
          return Invalid("node_id", "is missing");
        }
        agent::ControllerPublishSpec spec;
        spec.plugin = plugin_.name();
        spec.volume = request->volume_id();
        spec.node_id = request->node_id();
        MOUNTD_ASSIGN(spec.usage, UsageOf(request->volume_capability(),
                                          request->readonly()));
        spec.volume_context = ToMap(request->volume_context());
        const LentSecrets secrets(request->secrets(), spec.secrets);
        MOUNTD_ASSIGN(const auto publish_context,
                      client.ControllerPublishVolume(spec));
        response->mutable_publish_context()->insert(publish_context.begin(),
                                                    publish_context.end());
        return Ok();
      });
}

grpc::Status ControllerService::ControllerUnpublishVolume(
    grpc::ServerContext* context,
    const pb::ControllerUnpublishVolumeRequest* request,
    pb::ControllerUnpublishVolumeResponse* /*response*/) {
  return plugin_.Answer(
      "ControllerUnpublishVolume", *context, *request,
      [&](agent::Client& client, const RpcTime& /*time*/) -> Result<void> {
        MOUNTD_TRY(CheckVolume(request->volume_id()));
        const Secrets secrets(request->secrets());
        return client.ControllerUnpublishVolume(
            plugin_.name(), request->volume_id(), request->node_id(),
            secrets.map());
      });
}

grpc::Status ControllerService::ValidateVolumeCapabilities(
    grpc::ServerContext* context,
    const pb::ValidateVolumeCapabilitiesRequest* request,
    pb::ValidateVolumeCapabilitiesResponse* response) {
  return plugin_.Answer(
      "ValidateVolumeCapabilities", *context, *request,
      [&](agent::Client& client, const RpcTime& /*time*/) -> Result<void> {
        MOUNTD_TRY(CheckVolume(request->volume_id()));
        if (request->volume_capabilities().empty()) {
          return Invalid("volume_capabilities", "is missing");
        }
        agent::VolumeValidationSpec spec;
        spec.plugin = plugin_.name();
        spec.volume = request->volume_id();
        spec.volume_context = ToMap(request->volume_context());
        spec.parameters = ToMap(request->parameters());
        spec.mutable_parameters = ToMap(request->mutable_parameters());
        const LentSecrets secrets(request->secrets(), spec.secrets);
        MOUNTD_ASSIGN(const auto usages,
                      UsagesOf(request->volume_capabilities()));
        // mountd asks about one capability at a time.
        for (const agent::VolumeUsage& usage : usages) {
          spec.usage = usage;
          MOUNTD_ASSIGN(const agent::VolumeValidation answer,
                        client.ValidateVolume(spec));
          response->set_message(answer.message);
          if (!answer.confirmed) {
            return Ok();
          }
        }
        auto* confirmed = response->mutable_confirmed();
        *confirmed->mutable_volume_context() = request->volume_context();
        *confirmed->mutable_volume_capabilities() =
            request->volume_capabilities();
        *confirmed->mutable_parameters() = request->parameters();
        *confirmed->mutable_mutable_parameters() =
            request->mutable_parameters();
        return Ok();
      });
}

grpc::Status ControllerService::ListVolumes(
    grpc::ServerContext* context, const pb::ListVolumesRequest* request,
    pb::ListVolumesResponse* response) {
  return plugin_.Answer(
      "ListVolumes", *context, *request,
      [&](agent::Client& client, const RpcTime& /*time*/) -> Result<void> {
        MOUNTD_ASSIGN(const agent::PageRequest page, PageOf(*request));
        MOUNTD_ASSIGN(const agent::PluginVolumePage volumes,
                      client.ListPluginVolumes(plugin_.name(), page));
        Fill(volumes, response);
        return Ok();
      });
}

grpc::Status ControllerService::GetCapacity(
    grpc::ServerContext* context, const pb::GetCapacityRequest* request,
    pb::GetCapacityResponse* response) {
  return plugin_.Answer(
      "GetCapacity", *context, *request,
      [&](agent::Client& client, const RpcTime& /*time*/) -> Result<void> {
        agent::CapacityQuery query;
        MOUNTD_ASSIGN(query.usages, UsagesOf(request->volume_capabilities()));
        query.parameters = ToMap(request->parameters());
        query.topology = ToMap(request->accessible_topology().segments());
        MOUNTD_ASSIGN(const agent::PluginCapacity capacity,
                      client.GetCapacity(plugin_.name(), query));
        Fill(capacity, response);
        return Ok();
      });
}

grpc::Status ControllerService::ControllerExpandVolume(
    grpc::ServerContext* context,
    const pb::ControllerExpandVolumeRequest* request,
    pb::ControllerExpandVolumeResponse* response) {
  return plugin_.Answer(
      "ControllerExpandVolume", *context, *request,
      [&](agent::Client& client, const RpcTime& /*time*/) -> Result<void> {
        MOUNTD_TRY(CheckVolume(request->volume_id()));
        if (!request->has_capacity_range()) {
          return Invalid("capacity_range", "is missing");
        }
        agent::ControllerExpansionSpec spec;
        spec.plugin = plugin_.name();
        spec.volume = request->volume_id();
        spec.required_bytes = request->capacity_range().required_bytes();
        spec.limit_bytes = request->capacity_range().limit_bytes();
        if (request->has_volume_capability()) {
          MOUNTD_ASSIGN(spec.usage,
                        UsageOf(request->volume_capability(), false));
        }
        const LentSecrets secrets(request->secrets(), spec.secrets);
        MOUNTD_ASSIGN(const agent::ControllerExpansion expansion,
                      client.ControllerExpandVolume(spec));
        response->set_capacity_bytes(expansion.capacity_bytes);
        response->set_node_expansion_required(
            expansion.node_expansion_required);
        return Ok();
      });
}

grpc::Status ControllerService::ControllerGetCapabilities(
    grpc::ServerContext* context,
    const pb::ControllerGetCapabilitiesRequest* /*request*/,
    pb::ControllerGetCapabilitiesResponse* response) {
  return plugin_.AnswerFromStatus(
      "ControllerGetCapabilities", *context,
      [&](const agent::PluginStatus& status) -> Result<void> {
        MOUNTD_TRY(CheckWasReady(status));
        for (const auto type : ControllerRpcsOf(status)) {
          response->add_capabilities()->mutable_rpc()->set_type(type);
        }
        return Ok();
      });
}

}  // namespace mountd::csi_proxy
