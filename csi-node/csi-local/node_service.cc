// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/node_service.h"

#include <sys/mount.h>

#include "csi-node/csi-local/capability.h"
#include "csi-node/csi-local/health.h"
#include "csi-node/csi-local/status.h"
#include "csi-node/csi-local/usage.h"

namespace mountd::csi_local {
namespace {

namespace pb = ::csi::v1;

}  // namespace

grpc::Status NodeService::NodeStageVolume(
    grpc::ServerContext* /*context*/, const pb::NodeStageVolumeRequest* request,
    pb::NodeStageVolumeResponse* /*response*/) {
  if (request->volume_id().empty()) {
    return Missing("volume_id");
  }
  if (request->staging_target_path().empty()) {
    return Missing("staging_target_path");
  }
  if (!request->has_volume_capability()) {
    return Missing("volume_capability");
  }
  MountOptions options;
  grpc::Status checked =
      CheckCapability(request->volume_capability(), &options);
  if (!checked.ok()) {
    return checked;
  }
  return ToStatus(volumes_->Stage(request->volume_id(),
                                  request->staging_target_path(), options),
                  request->volume_id());
}

grpc::Status NodeService::NodeUnstageVolume(
    grpc::ServerContext* /*context*/,
    const pb::NodeUnstageVolumeRequest* request,
    pb::NodeUnstageVolumeResponse* /*response*/) {
  if (request->volume_id().empty()) {
    return Missing("volume_id");
  }
  if (request->staging_target_path().empty()) {
    return Missing("staging_target_path");
  }
  return ToStatus(
      volumes_->Unstage(request->volume_id(), request->staging_target_path()));
}

grpc::Status NodeService::NodePublishVolume(
    grpc::ServerContext* /*context*/,
    const pb::NodePublishVolumeRequest* request,
    pb::NodePublishVolumeResponse* /*response*/) {
  if (request->volume_id().empty()) {
    return Missing("volume_id");
  }
  if (request->target_path().empty()) {
    return Missing("target_path");
  }
  if (!request->has_volume_capability()) {
    return Missing("volume_capability");
  }
  if (request->staging_target_path().empty()) {
    return {grpc::StatusCode::FAILED_PRECONDITION,
            "staging_target_path is missing"};
  }
  MountOptions options;
  grpc::Status checked =
      CheckCapability(request->volume_capability(), &options);
  if (!checked.ok()) {
    return checked;
  }
  if (request->readonly()) {
    options.attributes |= MOUNT_ATTR_RDONLY;
  }
  return ToStatus(
      volumes_->Publish(request->volume_id(), request->staging_target_path(),
                        request->target_path(), options),
      request->volume_id());
}

grpc::Status NodeService::NodeUnpublishVolume(
    grpc::ServerContext* /*context*/,
    const pb::NodeUnpublishVolumeRequest* request,
    pb::NodeUnpublishVolumeResponse* /*response*/) {
  if (request->volume_id().empty()) {
    return Missing("volume_id");
  }
  if (request->target_path().empty()) {
    return Missing("target_path");
  }
  return ToStatus(
      volumes_->Unpublish(request->volume_id(), request->target_path()));
}

grpc::Status NodeService::NodeGetVolumeStats(
    grpc::ServerContext* /*context*/,
    const pb::NodeGetVolumeStatsRequest* request,
    pb::NodeGetVolumeStatsResponse* response) {
  if (request->volume_id().empty()) {
    return Missing("volume_id");
  }
  if (request->volume_path().empty()) {
    return Missing("volume_path");
  }
  const auto found =
      volumes_->FindAt(request->volume_id(), request->volume_path());
  if (!found) {
    return ToStatus(found);
  }
  const auto usage = UsageOf(found->record, found->node);
  if (!usage) {
    return ToStatus(usage);
  }
  for (const pb::VolumeUsage& one : *usage) {
    *response->add_usage() = one;
  }
  *response->mutable_volume_condition() =
      ToCondition(HealthOf(store_->data(), found->record));
  return grpc::Status::OK;
}

grpc::Status NodeService::NodeExpandVolume(
    grpc::ServerContext* /*context*/,
    const pb::NodeExpandVolumeRequest* request,
    pb::NodeExpandVolumeResponse* response) {
  if (request->volume_id().empty()) {
    return Missing("volume_id");
  }
  if (request->volume_path().empty()) {
    return Missing("volume_path");
  }
  const CapacityRange range{request->capacity_range().required_bytes(),
                            request->capacity_range().limit_bytes()};
  const auto bytes =
      volumes_->Expand(request->volume_id(), request->volume_path(), range);
  if (bytes) {
    response->set_capacity_bytes(*bytes);
  }
  return ToStatus(bytes);
}

grpc::Status NodeService::NodeGetVolumeHealth(
    grpc::ServerContext* /*context*/,
    const pb::NodeGetVolumeHealthRequest* request,
    pb::NodeGetVolumeHealthResponse* response) {
  if (request->volume_id().empty()) {
    return Missing("volume_id");
  }
  const auto record = store_->GetVolume(request->volume_id());
  if (!record) {
    return ToStatus(record);
  }
  pb::VolumeHealth* health = response->mutable_volume_health();
  health->set_volume_id(record->id());
  for (const HealthEntry& entry : HealthOf(store_->data(), *record)) {
    *health->add_health_statuses() = entry;
  }
  const std::string& path = request->volume_publish_path();
  if (!path.empty() && !volumes_->FindAt(record->id(), path)) {
    *health->add_health_statuses() =
        MakeHealth(pb::INACCESSIBLE, "NotPublished",
                   "the volume is not published at this path");
  }
  return grpc::Status::OK;
}

grpc::Status NodeService::NodeGetStorageHealth(
    grpc::ServerContext* /*context*/,
    const pb::NodeGetStorageHealthRequest* /*request*/,
    pb::NodeGetStorageHealthResponse* response) {
  const auto space = store_->data().SpaceNow();
  if (space && space->available >= space->total / 100) {
    return grpc::Status::OK;
  }
  auto* entry = response->add_backend_health();
  entry->set_status(space ? pb::STORAGE_DEGRADED : pb::STORAGE_UNREACHABLE);
  entry->set_reason(space ? "AlmostFull" : "Unreachable");
  entry->set_message(
      space ? "the data directory has less than 1 % of its space left"
            : "the data directory does not answer");
  return grpc::Status::OK;
}

grpc::Status NodeService::NodeGetCapabilities(
    grpc::ServerContext* /*context*/,
    const pb::NodeGetCapabilitiesRequest* /*request*/,
    pb::NodeGetCapabilitiesResponse* response) {
  using Rpc = pb::NodeServiceCapability::RPC;
  for (const Rpc::Type type :
       {Rpc::STAGE_UNSTAGE_VOLUME, Rpc::GET_VOLUME_STATS, Rpc::EXPAND_VOLUME,
        Rpc::VOLUME_CONDITION, Rpc::SINGLE_NODE_MULTI_WRITER,
        Rpc::VOLUME_MOUNT_GROUP, Rpc::GET_VOLUME_HEALTH,
        Rpc::GET_STORAGE_HEALTH}) {
    response->add_capabilities()->mutable_rpc()->set_type(type);
  }
  return grpc::Status::OK;
}

grpc::Status NodeService::NodeGetInfo(grpc::ServerContext* /*context*/,
                                      const pb::NodeGetInfoRequest* /*request*/,
                                      pb::NodeGetInfoResponse* response) {
  response->set_node_id(node_id_);
  response->set_max_volumes_per_node(store_->options().max_volumes);
  *response->mutable_accessible_topology() = TopologyOf(node_id_);
  return grpc::Status::OK;
}

}  // namespace mountd::csi_local
