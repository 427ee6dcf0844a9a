// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/mountd-csi/values_to_proto.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "csi-node/mountd-csi/scrub.h"

namespace mountd::csi {
namespace {

using ProtoMap = google::protobuf::Map<std::string, std::string>;

RpcError BadAnswer(const char* field) {
  return RpcError{RpcCode::kInternal,
                  std::string("the plugin's answer has no valid ") + field};
}

void Fill(const std::map<std::string, std::string>& from, ProtoMap* to) {
  for (const auto& [key, value] : from) {
    (*to)[key] = value;
  }
}

void Fill(const Secrets& from, ProtoMap* to) {
  for (const auto& [key, value] : from.entries()) {
    (*to)[std::string(key)].assign(value);
  }
}

void Fill(const VolumeCapability& from, pb::VolumeCapability* to) {
  if (from.block) {
    to->mutable_block();
  } else {
    auto* mount = to->mutable_mount();
    mount->set_fs_type(from.fs_type);
    for (const std::string& flag : from.mount_flags) {
      mount->add_mount_flags(flag);
    }
    mount->set_volume_mount_group(from.volume_mount_group);
  }
  to->mutable_access_mode()->set_mode(
      static_cast<pb::VolumeCapability::AccessMode::Mode>(from.access_mode));
}

// Returns the numbers of a repeated capability, without entries that are no
// RPC.
template <typename Capabilities>
RpcResult<std::vector<int>> RpcNumbers(const Capabilities& capabilities) {
  if (static_cast<std::size_t>(capabilities.size()) > ipc::kMaxCapabilities) {
    return BadAnswer("number of capabilities");
  }
  std::vector<int> numbers;
  for (const auto& capability : capabilities) {
    if (capability.has_rpc()) {
      numbers.push_back(capability.rpc().type());
    }
  }
  return numbers;
}

}  // namespace

pb::NodeStageVolumeRequest ToProto(const StageRequest& request,
                                   const Secrets& secrets) {
  pb::NodeStageVolumeRequest proto;
  proto.set_volume_id(request.volume_id);
  Fill(request.publish_context, proto.mutable_publish_context());
  proto.set_staging_target_path(request.staging_target_path);
  Fill(request.capability, proto.mutable_volume_capability());
  Fill(secrets, proto.mutable_secrets());
  Fill(request.volume_context, proto.mutable_volume_context());
  return proto;
}

pb::NodePublishVolumeRequest ToProto(const PublishRequest& request,
                                     const Secrets& secrets) {
  pb::NodePublishVolumeRequest proto;
  proto.set_volume_id(request.volume_id);
  Fill(request.publish_context, proto.mutable_publish_context());
  proto.set_staging_target_path(request.staging_target_path);
  proto.set_target_path(request.target_path);
  Fill(request.capability, proto.mutable_volume_capability());
  proto.set_readonly(request.read_only);
  Fill(secrets, proto.mutable_secrets());
  Fill(request.volume_context, proto.mutable_volume_context());
  return proto;
}

pb::NodeUnstageVolumeRequest ToProto(const ipc::UnstageRequest& request) {
  pb::NodeUnstageVolumeRequest proto;
  proto.set_volume_id(request.volume_id);
  proto.set_staging_target_path(request.staging_target_path);
  return proto;
}

pb::NodeUnpublishVolumeRequest ToProto(const ipc::UnpublishRequest& request) {
  pb::NodeUnpublishVolumeRequest proto;
  proto.set_volume_id(request.volume_id);
  proto.set_target_path(request.target_path);
  return proto;
}

pb::NodeExpandVolumeRequest ToProto(const ExpandRequest& request,
                                    const Secrets& secrets) {
  pb::NodeExpandVolumeRequest proto;
  proto.set_volume_id(request.volume_id);
  proto.set_volume_path(request.volume_path);
  proto.set_staging_target_path(request.staging_target_path);
  if (request.required_bytes != 0 || request.limit_bytes != 0) {
    proto.mutable_capacity_range()->set_required_bytes(request.required_bytes);
    proto.mutable_capacity_range()->set_limit_bytes(request.limit_bytes);
  }
  Fill(request.capability, proto.mutable_volume_capability());
  Fill(secrets, proto.mutable_secrets());
  return proto;
}

pb::NodeGetVolumeStatsRequest ToProto(const ipc::StatsRequest& request) {
  pb::NodeGetVolumeStatsRequest proto;
  proto.set_volume_id(request.volume_id);
  proto.set_volume_path(request.volume_path);
  proto.set_staging_target_path(request.staging_target_path);
  return proto;
}

pb::NodeGetVolumeHealthRequest ToHealthRequest(
    const ipc::StatsRequest& request) {
  pb::NodeGetVolumeHealthRequest proto;
  proto.set_volume_id(request.volume_id);
  proto.set_volume_publish_path(request.volume_path);
  proto.set_staging_target_path(request.staging_target_path);
  return proto;
}

RpcResult<ipc::ProbeResult> FromProto(const pb::ProbeResponse& response) {
  return ipc::ProbeResult{!response.has_ready() || response.ready().value()};
}

RpcResult<PluginInfo> FromProto(const pb::GetPluginInfoResponse& response) {
  if (response.name().empty() ||
      !ipc::FitsText(response.name(), ipc::kMaxPluginName)) {
    return BadAnswer("name");
  }
  if (!ipc::FitsText(response.vendor_version(), ipc::kMaxText)) {
    return BadAnswer("vendor_version");
  }
  return PluginInfo{response.name(), response.vendor_version()};
}

RpcResult<NodeInfo> FromProto(const pb::NodeGetInfoResponse& response) {
  if (response.node_id().empty() ||
      !ipc::FitsText(response.node_id(), ipc::kMaxNodeId)) {
    return BadAnswer("node_id");
  }
  if (response.max_volumes_per_node() < 0) {
    return BadAnswer("max_volumes_per_node");
  }
  NodeInfo info;
  info.node_id = response.node_id();
  info.max_volumes = response.max_volumes_per_node();
  const ProtoMap& segments = response.accessible_topology().segments();
  info.topology.insert(segments.begin(), segments.end());
  if (!ipc::FitsMap(info.topology)) {
    return BadAnswer("accessible_topology");
  }
  return info;
}

RpcResult<std::vector<int>> FromProto(
    const pb::GetPluginCapabilitiesResponse& response) {
  if (static_cast<std::size_t>(response.capabilities_size()) >
      ipc::kMaxCapabilities) {
    return BadAnswer("number of capabilities");
  }
  std::vector<int> numbers;
  for (const pb::PluginCapability& capability : response.capabilities()) {
    if (capability.has_service()) {
      numbers.push_back(capability.service().type());
    }
  }
  return numbers;
}

RpcResult<std::vector<int>> FromProto(
    const pb::ControllerGetCapabilitiesResponse& response) {
  return RpcNumbers(response.capabilities());
}

RpcResult<std::vector<int>> FromProto(
    const pb::NodeGetCapabilitiesResponse& response) {
  return RpcNumbers(response.capabilities());
}

RpcResult<ipc::ExpandResult> FromProto(
    const pb::NodeExpandVolumeResponse& response) {
  if (response.capacity_bytes() < 0) {
    return BadAnswer("capacity_bytes");
  }
  return ipc::ExpandResult{response.capacity_bytes()};
}

RpcResult<VolumeStats> FromProto(
    const pb::NodeGetVolumeStatsResponse& response) {
  if (static_cast<std::size_t>(response.usage_size()) > ipc::kMaxUsages) {
    return BadAnswer("number of usages");
  }
  VolumeStats stats;
  for (const pb::VolumeUsage& usage : response.usage()) {
    if (std::min({usage.available(), usage.total(), usage.used()}) < 0) {
      return BadAnswer("usage");
    }
    if (usage.unit() == pb::VolumeUsage::BYTES ||
        usage.unit() == pb::VolumeUsage::INODES) {
      stats.usage.push_back({usage.available(), usage.total(), usage.used(),
                             usage.unit() == pb::VolumeUsage::INODES});
    }
  }
  if (response.has_volume_condition()) {
    const pb::VolumeCondition& condition = response.volume_condition();
    stats.condition =
        VolumeCondition{condition.abnormal(), Scrub(condition.message(), {})};
  }
  return stats;
}

// Writes each entry as "DEGRADED (reason): message".
RpcResult<VolumeStats> FromProto(
    const pb::NodeGetVolumeHealthResponse& response) {
  const auto& entries = response.volume_health().health_statuses();
  std::string text;
  for (const auto& entry : entries) {
    const std::string& status = pb::VolumeHealthErrorType_Name(entry.status());
    text += text.empty() ? "" : "; ";
    text += status.empty() ? "UNKNOWN_VOLUME_HEALTH_TYPE" : status;
    text += entry.reason().empty() ? "" : " (" + entry.reason() + ")";
    text += entry.message().empty() ? "" : ": " + entry.message();
    if (text.size() > ipc::kMaxMessage) {
      break;  // Scrub cuts the rest
    }
  }
  VolumeStats stats;
  stats.condition = VolumeCondition{!entries.empty(), Scrub(text, {})};
  return stats;
}

void WipeSecrets(ProtoMap* secrets) {
  for (auto& [key, value] : *secrets) {
    WipeString(&value);
  }
}

}  // namespace mountd::csi
