// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The Controller service's calls on snapshots.
#include <algorithm>
#include <chrono>

#include "csi-node/csi-local/controller_service.h"
#include "csi-node/csi-local/page.h"
#include "csi-node/csi-local/request.h"
#include "csi-node/csi-local/status.h"

namespace mountd::csi_local {
namespace {

namespace pb = ::csi::v1;

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

}  // namespace

void ControllerService::Fill(const SnapshotRecord& record,
                             pb::Snapshot* snapshot) const {
  snapshot->set_snapshot_id(record.id());
  snapshot->set_source_volume_id(record.source_volume_id());
  snapshot->set_size_bytes(record.content().capacity_bytes());
  snapshot->mutable_creation_time()->set_seconds(record.created_ns() /
                                                 kNsPerSecond);
  snapshot->mutable_creation_time()->set_nanos(
      static_cast<std::int32_t>(record.created_ns() % kNsPerSecond));
  snapshot->set_ready_to_use(true);
  *snapshot->add_accessible_topology() = here_;
}

grpc::Status ControllerService::CreateSnapshot(
    grpc::ServerContext* /*context*/, const pb::CreateSnapshotRequest* request,
    pb::CreateSnapshotResponse* response) {
  grpc::Status named = CheckName(request->name());
  if (!named.ok()) {
    return named;
  }
  if (request->source_volume_id().empty()) {
    return Missing("source_volume_id");
  }
  // Accepts only parameters that an orchestrator adds for itself.
  VolumeRequest spec;
  grpc::Status parsed = ParseParameters(request->parameters(), &spec);
  if (!parsed.ok() || spec.kind) {
    return Invalid("parameters: must be empty for a snapshot");
  }
  if (!IsHere(request->accessibility_requirements(), here_)) {
    return {grpc::StatusCode::RESOURCE_EXHAUSTED,
            "snapshots exist on this node only"};
  }
  const auto record =
      store_->CreateSnapshot(request->name(), request->source_volume_id());
  if (record) {
    Fill(*record, response->mutable_snapshot());
  }
  return ToStatus(record);
}

grpc::Status ControllerService::DeleteSnapshot(
    grpc::ServerContext* /*context*/, const pb::DeleteSnapshotRequest* request,
    pb::DeleteSnapshotResponse* /*response*/) {
  return request->snapshot_id().empty()
             ? Missing("snapshot_id")
             : ToStatus(store_->DeleteSnapshot(request->snapshot_id()));
}

grpc::Status ControllerService::ListSnapshots(
    grpc::ServerContext* /*context*/, const pb::ListSnapshotsRequest* request,
    pb::ListSnapshotsResponse* response) {
  auto snapshots = store_->ListSnapshots();
  if (!snapshots) {
    return ToStatus(snapshots);
  }
  const std::string& id = request->snapshot_id();
  const std::string& source = request->source_volume_id();
  snapshots->erase(
      std::remove_if(snapshots->begin(), snapshots->end(),
                     [&id, &source](const SnapshotRecord& record) {
                       return (!id.empty() && record.id() != id) ||
                              (!source.empty() &&
                               record.source_volume_id() != source);
                     }),
      snapshots->end());
  const auto page = PageOf(std::move(*snapshots), request->max_entries(),
                           request->starting_token());
  if (!page) {
    return ToStatus(page);
  }
  for (const SnapshotRecord& record : page->entries) {
    Fill(record, response->add_entries()->mutable_snapshot());
  }
  response->set_next_token(page->next_token);
  return grpc::Status::OK;
}

grpc::Status ControllerService::GetSnapshot(
    grpc::ServerContext* /*context*/, const pb::GetSnapshotRequest* request,
    pb::GetSnapshotResponse* response) {
  if (request->snapshot_id().empty()) {
    return Missing("snapshot_id");
  }
  const auto record = store_->GetSnapshot(request->snapshot_id());
  if (record) {
    Fill(*record, response->mutable_snapshot());
  }
  return ToStatus(record);
}

}  // namespace mountd::csi_local
