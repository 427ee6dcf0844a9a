// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/controller_service.h"

#include <sys/mount.h>

#include "csi-node/csi-local/capability.h"
#include "csi-node/csi-local/health.h"
#include "csi-node/csi-local/page.h"
#include "csi-node/csi-local/request.h"
#include "csi-node/csi-local/status.h"

namespace mountd::csi_local {
namespace {

namespace pb = ::csi::v1;

constexpr char kElsewhere[] = "volumes exist on this node only";

}  // namespace

void ControllerService::Fill(const VolumeRecord& record,
                             pb::Volume* volume) const {
  volume->set_volume_id(record.id());
  volume->set_capacity_bytes(record.content().capacity_bytes());
  *volume->add_accessible_topology() = here_;
  if (!record.source_snapshot_id().empty()) {
    volume->mutable_content_source()->mutable_snapshot()->set_snapshot_id(
        record.source_snapshot_id());
  } else if (!record.source_volume_id().empty()) {
    volume->mutable_content_source()->mutable_volume()->set_volume_id(
        record.source_volume_id());
  }
}

template <typename Status>
void ControllerService::FillStatus(const VolumeRecord& record,
                                   Status* status) const {
  if (record.has_published()) {
    status->add_published_node_ids(node_id_);
  }
  *status->mutable_volume_condition() =
      ToCondition(HealthOf(store_->data(), record));
}

grpc::Status ControllerService::CreateVolume(
    grpc::ServerContext* /*context*/, const pb::CreateVolumeRequest* request,
    pb::CreateVolumeResponse* response) {
  VolumeRequest spec;
  grpc::Status parsed = ParseCreate(*request, &spec);
  if (!parsed.ok()) {
    return parsed;
  }
  if (!IsHere(request->accessibility_requirements(), here_)) {
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, kElsewhere};
  }
  const auto record = store_->CreateVolume(spec);
  if (record) {
    Fill(*record, response->mutable_volume());
  }
  return ToStatus(record);
}

grpc::Status ControllerService::DeleteVolume(
    grpc::ServerContext* /*context*/, const pb::DeleteVolumeRequest* request,
    pb::DeleteVolumeResponse* /*response*/) {
  return request->volume_id().empty()
             ? Missing("volume_id")
             : ToStatus(store_->DeleteVolume(request->volume_id()));
}

grpc::Status ControllerService::ControllerPublishVolume(
    grpc::ServerContext* /*context*/,
    const pb::ControllerPublishVolumeRequest* request,
    pb::ControllerPublishVolumeResponse* /*response*/) {
  if (request->volume_id().empty()) {
    return Missing("volume_id");
  }
  if (request->node_id().empty()) {
    return Missing("node_id");
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
  const auto record = store_->GetVolume(request->volume_id());
  if (!record) {
    return ToStatus(record);
  }
  if (request->node_id() != node_id_) {
    return {grpc::StatusCode::NOT_FOUND, kElsewhere};
  }
  if (!FitsAccess(record->content(), options.block, options.fs_type)) {
    return Invalid("a volume of this kind does not support this access");
  }
  PublishedAs as;
  as.set_access_mode(options.access_mode);
  as.set_read_only(request->readonly() ||
                   (options.attributes & MOUNT_ATTR_RDONLY) != 0);
  as.set_block(options.block);
  return ToStatus(store_->PublishVolume(record->id(), as));
}

grpc::Status ControllerService::ControllerUnpublishVolume(
    grpc::ServerContext* /*context*/,
    const pb::ControllerUnpublishVolumeRequest* request,
    pb::ControllerUnpublishVolumeResponse* /*response*/) {
  if (request->volume_id().empty()) {
    return Missing("volume_id");
  }
  // Without a node id, this request is for every node. On another node the
  // volume is not published, so nothing is left to do.
  if (!request->node_id().empty() && request->node_id() != node_id_) {
    return grpc::Status::OK;
  }
  return ToStatus(store_->UnpublishVolume(request->volume_id()));
}

grpc::Status ControllerService::ValidateVolumeCapabilities(
    grpc::ServerContext* /*context*/,
    const pb::ValidateVolumeCapabilitiesRequest* request,
    pb::ValidateVolumeCapabilitiesResponse* response) {
  if (request->volume_id().empty()) {
    return Missing("volume_id");
  }
  if (request->volume_capabilities().empty()) {
    return Missing("volume_capabilities");
  }
  const auto record = store_->GetVolume(request->volume_id());
  if (!record) {
    return ToStatus(record);
  }
  for (const pb::VolumeCapability& capability :
       request->volume_capabilities()) {
    MountOptions options;
    const grpc::Status checked = CheckCapability(capability, &options);
    if (!checked.ok()) {
      response->set_message(checked.error_message());
      return grpc::Status::OK;
    }
    if (!FitsAccess(record->content(), options.block, options.fs_type)) {
      response->set_message(
          "a volume of this kind does not support this access");
      return grpc::Status::OK;
    }
  }
  VolumeRequest spec;
  const grpc::Status parsed = ParseParameters(request->parameters(), &spec);
  if (!parsed.ok() || !request->mutable_parameters().empty() ||
      !request->volume_context().empty() ||
      (spec.kind && *spec.kind != record->content().kind())) {
    response->set_message("the volume was created with other parameters");
    return grpc::Status::OK;
  }
  auto* confirmed = response->mutable_confirmed();
  *confirmed->mutable_volume_capabilities() = request->volume_capabilities();
  *confirmed->mutable_parameters() = request->parameters();
  return grpc::Status::OK;
}

grpc::Status ControllerService::ListVolumes(
    grpc::ServerContext* /*context*/, const pb::ListVolumesRequest* request,
    pb::ListVolumesResponse* response) {
  auto volumes = store_->ListVolumes();
  if (!volumes) {
    return ToStatus(volumes);
  }
  const auto page = PageOf(std::move(*volumes), request->max_entries(),
                           request->starting_token());
  if (!page) {
    return ToStatus(page);
  }
  for (const VolumeRecord& record : page->entries) {
    auto* entry = response->add_entries();
    Fill(record, entry->mutable_volume());
    FillStatus(record, entry->mutable_status());
  }
  response->set_next_token(page->next_token);
  return grpc::Status::OK;
}

grpc::Status ControllerService::ControllerGetVolume(
    grpc::ServerContext* /*context*/,
    const pb::ControllerGetVolumeRequest* request,
    pb::ControllerGetVolumeResponse* response) {
  if (request->volume_id().empty()) {
    return Missing("volume_id");
  }
  const auto record = store_->GetVolume(request->volume_id());
  if (record) {
    Fill(*record, response->mutable_volume());
    FillStatus(*record, response->mutable_status());
  }
  return ToStatus(record);
}

grpc::Status ControllerService::GetCapacity(
    grpc::ServerContext* /*context*/, const pb::GetCapacityRequest* request,
    pb::GetCapacityResponse* response) {
  VolumeRequest spec;
  grpc::Status parsed = ParseParameters(request->parameters(), &spec);
  if (parsed.ok() && !request->volume_capabilities().empty()) {
    parsed = ParseCapabilities(request->volume_capabilities(), &spec);
  }
  if (!parsed.ok()) {
    return parsed;
  }
  // This node cannot create such a volume, so report no capacity for it.
  const auto content = ResolveContent(spec, nullptr);
  if ((request->has_accessible_topology() &&
       !Matches(request->accessible_topology(), here_)) ||
      !content) {
    return grpc::Status::OK;
  }
  const auto space = store_->Capacity(content->kind());
  if (space) {
    response->set_available_capacity(space->available);
    response->mutable_maximum_volume_size()->set_value(space->total);
    response->mutable_minimum_volume_size()->set_value(LeastSize(*content));
  }
  return ToStatus(space);
}

grpc::Status ControllerService::ControllerGetCapabilities(
    grpc::ServerContext* /*context*/,
    const pb::ControllerGetCapabilitiesRequest* /*request*/,
    pb::ControllerGetCapabilitiesResponse* response) {
  using Rpc = pb::ControllerServiceCapability::RPC;
  for (const Rpc::Type type :
       {Rpc::CREATE_DELETE_VOLUME, Rpc::PUBLISH_UNPUBLISH_VOLUME,
        Rpc::LIST_VOLUMES, Rpc::GET_CAPACITY, Rpc::CREATE_DELETE_SNAPSHOT,
        Rpc::LIST_SNAPSHOTS, Rpc::CLONE_VOLUME, Rpc::PUBLISH_READONLY,
        Rpc::EXPAND_VOLUME, Rpc::LIST_VOLUMES_PUBLISHED_NODES,
        Rpc::VOLUME_CONDITION, Rpc::GET_VOLUME, Rpc::SINGLE_NODE_MULTI_WRITER,
        Rpc::GET_SNAPSHOT, Rpc::GET_VOLUME_HEALTH, Rpc::LIST_VOLUME_HEALTH}) {
    response->add_capabilities()->mutable_rpc()->set_type(type);
  }
  return grpc::Status::OK;
}

grpc::Status ControllerService::ControllerExpandVolume(
    grpc::ServerContext* /*context*/,
    const pb::ControllerExpandVolumeRequest* request,
    pb::ControllerExpandVolumeResponse* response) {
  if (request->volume_id().empty()) {
    return Missing("volume_id");
  }
  if (!request->has_capacity_range()) {
    return Missing("capacity_range");
  }
  const auto bytes = store_->ExpandVolume(
      request->volume_id(), {request->capacity_range().required_bytes(),
                             request->capacity_range().limit_bytes()});
  const auto record = store_->GetVolume(request->volume_id());
  if (bytes && record) {
    response->set_capacity_bytes(*bytes);
    response->set_node_expansion_required(record->content().kind() !=
                                          DIRECTORY);
  }
  return ToStatus(bytes);
}

grpc::Status ControllerService::ControllerListVolumeHealth(
    grpc::ServerContext* /*context*/,
    const pb::ControllerListVolumeHealthRequest* request,
    pb::ControllerListVolumeHealthResponse* response) {
  auto volumes = store_->ListVolumes();
  if (!volumes) {
    return ToStatus(volumes);
  }
  // Lists and counts only abnormal volumes.
  std::vector<VolumeRecord> abnormal;
  for (VolumeRecord& record : *volumes) {
    if (!HealthOf(store_->data(), record).empty()) {
      abnormal.push_back(std::move(record));
    }
  }
  const auto page = PageOf(std::move(abnormal), request->max_entries(),
                           request->starting_token());
  if (!page) {
    return ToStatus(page);
  }
  for (const VolumeRecord& record : page->entries) {
    pb::VolumeHealth* health = response->add_entries();
    health->set_volume_id(record.id());
    for (const HealthEntry& entry : HealthOf(store_->data(), record)) {
      *health->add_health_statuses() = entry;
    }
  }
  response->set_next_token(page->next_token);
  return grpc::Status::OK;
}

grpc::Status ControllerService::ControllerGetVolumeHealth(
    grpc::ServerContext* /*context*/,
    const pb::ControllerGetVolumeHealthRequest* request,
    pb::ControllerGetVolumeHealthResponse* response) {
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
  return grpc::Status::OK;
}

}  // namespace mountd::csi_local
