// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-csi-proxy/node_service.h"

#include "agent/mountd-csi-proxy/capabilities.h"
#include "agent/mountd-csi-proxy/publication.h"

namespace mountd::csi_proxy {
namespace {

namespace pb = ::csi::v1;

Result<agent::VolumeSpec> SpecOf(const pb::NodePublishVolumeRequest& request) {
  MOUNTD_TRY(CheckVolume(request.volume_id()));
  if (!request.has_volume_capability()) {
    return Invalid("volume_capability", "is missing");
  }
  agent::VolumeSpec spec;
  spec.volume = request.volume_id();
  MOUNTD_ASSIGN(spec.usage,
                NodeUsageOf(request.volume_capability(), request.readonly()));
  spec.publish_context = ToMap(request.publish_context());
  spec.volume_context = ToMap(request.volume_context());
  return spec;
}

void Fill(const agent::VolumeStats& stats,
          pb::NodeGetVolumeStatsResponse* response) {
  for (const agent::VolumeUse& use : stats.usage) {
    auto* usage = response->add_usage();
    usage->set_unit(use.unit == "inodes" ? pb::VolumeUsage::INODES
                                         : pb::VolumeUsage::BYTES);
    usage->set_total(use.total);
    usage->set_used(use.used);
    usage->set_available(use.available);
  }
  if (stats.has_condition) {
    response->mutable_volume_condition()->set_abnormal(stats.abnormal);
    response->mutable_volume_condition()->set_message(stats.condition);
  }
}

}  // namespace

grpc::Status NodeService::NodePublishVolume(
    grpc::ServerContext* context, const pb::NodePublishVolumeRequest* request,
    pb::NodePublishVolumeResponse* /*response*/) {
  return plugin_.AnswerAt(
      "NodePublishVolume", *context, *request, "target_path",
      request->target_path(),
      [&](agent::Client& client, const RpcTime& /*time*/,
          const Publication& publication) -> Result<void> {
        MOUNTD_ASSIGN(agent::VolumeSpec spec, SpecOf(*request));
        const LentSecrets secrets(request->secrets(), spec.secrets);
        return publication.Publish(client, spec);
      });
}

grpc::Status NodeService::NodeUnpublishVolume(
    grpc::ServerContext* context, const pb::NodeUnpublishVolumeRequest* request,
    pb::NodeUnpublishVolumeResponse* /*response*/) {
  return plugin_.AnswerAt("NodeUnpublishVolume", *context, *request,
                          "target_path", request->target_path(),
                          [&](agent::Client& client, const RpcTime& time,
                              const Publication& publication) -> Result<void> {
                            MOUNTD_TRY(CheckVolume(request->volume_id()));
                            return publication.Unpublish(
                                client, request->volume_id(), time);
                          });
}

// A volume at a path that no volume can be at is NOT_FOUND, as CSI has it.
template <typename Request, typename F>
grpc::Status NodeService::AnswerPublished(const char* rpc,
                                          const grpc::ServerContext& context,
                                          const Request& request,
                                          const F& work) {
  const std::string& path = request.volume_path();
  if (!request.volume_id().empty() && !path.empty() && path[0] != '/') {
    return plugin_.Finish(rpc, MakeError(Code::kNotFound, "look up", "volume",
                                         "volume_path is not absolute"));
  }
  return plugin_.AnswerAt(
      rpc, context, request, "volume_path", path,
      [&](agent::Client& client, const RpcTime& /*time*/,
          const Publication& publication) -> Result<void> {
        MOUNTD_TRY(CheckVolume(request.volume_id()));
        MOUNTD_TRY(publication.CheckPublished(client, request.volume_id()));
        return work(client, publication.allocation());
      });
}

grpc::Status NodeService::NodeGetVolumeStats(
    grpc::ServerContext* context, const pb::NodeGetVolumeStatsRequest* request,
    pb::NodeGetVolumeStatsResponse* response) {
  return AnswerPublished("NodeGetVolumeStats", *context, *request,
                         [&](agent::Client& client,
                             const std::string& allocation) -> Result<void> {
                           MOUNTD_ASSIGN(
                               const agent::VolumeStats stats,
                               client.GetVolumeStats(allocation, kAlias));
                           Fill(stats, response);
                           return Ok();
                         });
}

grpc::Status NodeService::NodeExpandVolume(
    grpc::ServerContext* context, const pb::NodeExpandVolumeRequest* request,
    pb::NodeExpandVolumeResponse* response) {
  return AnswerPublished(
      "NodeExpandVolume", *context, *request,
      [&](agent::Client& client,
          const std::string& allocation) -> Result<void> {
        agent::VolumeExpansion expansion;
        expansion.required_bytes = request->capacity_range().required_bytes();
        expansion.limit_bytes = request->capacity_range().limit_bytes();
        const LentSecrets secrets(request->secrets(), expansion.secrets);
        MOUNTD_ASSIGN(const std::int64_t bytes,
                      client.ExpandVolume(allocation, kAlias, expansion));
        response->set_capacity_bytes(bytes);
        return Ok();
      });
}

grpc::Status NodeService::NodeGetCapabilities(
    grpc::ServerContext* context,
    const pb::NodeGetCapabilitiesRequest* /*request*/,
    pb::NodeGetCapabilitiesResponse* response) {
  return plugin_.AnswerFromStatus(
      "NodeGetCapabilities", *context,
      [&](const agent::PluginStatus& status) -> Result<void> {
        MOUNTD_TRY(CheckWasReady(status));
        for (const auto type : NodeRpcsOf(status)) {
          response->add_capabilities()->mutable_rpc()->set_type(type);
        }
        return Ok();
      });
}

grpc::Status NodeService::NodeGetInfo(grpc::ServerContext* context,
                                      const pb::NodeGetInfoRequest* /*request*/,
                                      pb::NodeGetInfoResponse* response) {
  return plugin_.AnswerFromStatus(
      "NodeGetInfo", *context,
      [&](const agent::PluginStatus& status) -> Result<void> {
        MOUNTD_TRY(CheckWasReady(status));
        if (status.node_id.empty()) {
          return MakeError(Code::kUnavailable, "look at the plugin", status.id,
                           "has told no node_id: " + status.reason);
        }
        response->set_node_id(status.node_id);
        response->set_max_volumes_per_node(status.max_volumes);
        if (!status.topology.empty()) {
          auto* segments =
              response->mutable_accessible_topology()->mutable_segments();
          segments->insert(status.topology.begin(), status.topology.end());
        }
        return Ok();
      });
}

}  // namespace mountd::csi_proxy
