// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-csi-proxy/controller_values.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "agent/mountd-csi-proxy/request.h"
#include "agent/mountd-csi-proxy/status.h"

namespace mountd::csi_proxy {
namespace {

namespace pb = ::csi::v1;

// The most that ListPluginVolumes takes.
constexpr std::uint32_t kMostEntries = 1000;

std::vector<std::map<std::string, std::string>> SegmentsOf(
    const google::protobuf::RepeatedPtrField<pb::Topology>& topologies) {
  std::vector<std::map<std::string, std::string>> all;
  all.reserve(static_cast<std::size_t>(topologies.size()));
  for (const pb::Topology& topology : topologies) {
    all.push_back(ToMap(topology.segments()));
  }
  return all;
}

}  // namespace

Result<std::vector<agent::VolumeUsage>> UsagesOf(
    const google::protobuf::RepeatedPtrField<pb::VolumeCapability>&
        capabilities) {
  std::vector<agent::VolumeUsage> usages;
  for (const pb::VolumeCapability& capability : capabilities) {
    MOUNTD_ASSIGN(agent::VolumeUsage usage, UsageOf(capability, false));
    usages.push_back(std::move(usage));
  }
  return usages;
}

Result<agent::VolumeCreation> CreationOf(
    const pb::CreateVolumeRequest& request) {
  if (request.name().empty()) {
    return Invalid("name", "is missing");
  }
  if (request.volume_capabilities().empty()) {
    return Invalid("volume_capabilities", "is missing");
  }
  agent::VolumeCreation creation;
  creation.name = request.name();
  creation.required_bytes = request.capacity_range().required_bytes();
  creation.limit_bytes = request.capacity_range().limit_bytes();
  MOUNTD_ASSIGN(creation.usages, UsagesOf(request.volume_capabilities()));
  creation.parameters = ToMap(request.parameters());
  creation.mutable_parameters = ToMap(request.mutable_parameters());
  const pb::VolumeContentSource& source = request.volume_content_source();
  creation.source_snapshot = source.snapshot().snapshot_id();
  creation.source_volume = source.volume().volume_id();
  if (request.has_volume_content_source() && creation.source_snapshot.empty() &&
      creation.source_volume.empty()) {
    return Invalid("volume_content_source", "names no snapshot and no volume");
  }
  creation.requisite =
      SegmentsOf(request.accessibility_requirements().requisite());
  creation.preferred =
      SegmentsOf(request.accessibility_requirements().preferred());
  return creation;
}

Result<agent::PageRequest> PageOf(const pb::ListVolumesRequest& request) {
  if (request.max_entries() < 0) {
    return Invalid("max_entries", "is negative");
  }
  return agent::PageRequest{
      std::min(static_cast<std::uint32_t>(request.max_entries()), kMostEntries),
      request.starting_token()};
}

void Fill(const agent::PluginVolume& volume, pb::Volume* to) {
  to->set_volume_id(volume.volume);
  to->set_capacity_bytes(volume.capacity_bytes);
  to->mutable_volume_context()->insert(volume.volume_context.begin(),
                                       volume.volume_context.end());
  if (!volume.source_snapshot.empty()) {
    to->mutable_content_source()->mutable_snapshot()->set_snapshot_id(
        volume.source_snapshot);
  } else if (!volume.source_volume.empty()) {
    to->mutable_content_source()->mutable_volume()->set_volume_id(
        volume.source_volume);
  }
  for (const auto& segments : volume.topology) {
    to->add_accessible_topology()->mutable_segments()->insert(segments.begin(),
                                                              segments.end());
  }
}

void Fill(const agent::PluginVolumePage& page, pb::ListVolumesResponse* to) {
  for (const agent::PluginVolume& volume : page.volumes) {
    pb::ListVolumesResponse::Entry* entry = to->add_entries();
    Fill(volume, entry->mutable_volume());
    for (const std::string& node : volume.published_node_ids) {
      entry->mutable_status()->add_published_node_ids(node);
    }
    if (volume.has_condition) {
      auto* condition = entry->mutable_status()->mutable_volume_condition();
      condition->set_abnormal(volume.abnormal);
      condition->set_message(volume.condition);
    }
  }
  to->set_next_token(page.next_token);
}

void Fill(const agent::PluginCapacity& capacity, pb::GetCapacityResponse* to) {
  to->set_available_capacity(capacity.available_bytes);
  if (capacity.maximum_volume_bytes) {
    to->mutable_maximum_volume_size()->set_value(
        *capacity.maximum_volume_bytes);
  }
  if (capacity.minimum_volume_bytes) {
    to->mutable_minimum_volume_size()->set_value(
        *capacity.minimum_volume_bytes);
  }
}

}  // namespace mountd::csi_proxy
