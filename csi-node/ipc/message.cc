// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/ipc/message.h"

#include <nlohmann/json.hpp>

#include "mountd/base/names.h"

namespace mountd::csi::ipc {
namespace {

using Json = nlohmann::json;

Json ToJson(const std::string& bytes) {
  // Encodes the text as bytes, because CBOR's texts must be UTF-8.
  return Json::binary({bytes.begin(), bytes.end()});
}

Json ToJson(const VolumeCapability& capability) {
  return {{"block", capability.block},
          {"access_mode", static_cast<int>(capability.access_mode)},
          {"fs_type", capability.fs_type},
          {"mount_flags", capability.mount_flags},
          {"volume_mount_group", capability.volume_mount_group}};
}

Json ToJson(const VolumeStats& stats) {
  Json usages = Json::array();
  for (const VolumeStats::Usage& usage : stats.usage) {
    usages.push_back({{"available", usage.available},
                      {"total", usage.total},
                      {"used", usage.used},
                      {"inodes", usage.inodes}});
  }
  // Has no element or one.
  Json conditions = Json::array();
  if (stats.condition) {
    conditions.push_back({{"abnormal", stats.condition->abnormal},
                          {"message", stats.condition->message}});
  }
  return {{"usage", usages}, {"condition", conditions}};
}

struct ArgumentsToJson {
  Json operator()(std::monostate /*none*/) const { return Json::object(); }
  Json operator()(const StageRequest& request) const {
    return {{"volume_id", request.volume_id},
            {"publish_context", request.publish_context},
            {"staging_target_path", request.staging_target_path},
            {"capability", ToJson(request.capability)},
            {"volume_context", request.volume_context}};
  }
  Json operator()(const UnstageRequest& request) const {
    return {{"volume_id", request.volume_id},
            {"staging_target_path", request.staging_target_path}};
  }
  Json operator()(const PublishRequest& request) const {
    return {{"volume_id", request.volume_id},
            {"publish_context", request.publish_context},
            {"staging_target_path", request.staging_target_path},
            {"target_path", request.target_path},
            {"capability", ToJson(request.capability)},
            {"read_only", request.read_only},
            {"volume_context", request.volume_context}};
  }
  Json operator()(const UnpublishRequest& request) const {
    return {{"volume_id", request.volume_id},
            {"target_path", request.target_path}};
  }
  Json operator()(const ExpandRequest& request) const {
    return {{"volume_id", request.volume_id},
            {"volume_path", request.volume_path},
            {"staging_target_path", request.staging_target_path},
            {"required_bytes", request.required_bytes},
            {"limit_bytes", request.limit_bytes},
            {"capability", ToJson(request.capability)}};
  }
  Json operator()(const StatsRequest& request) const {
    return {{"volume_id", request.volume_id},
            {"volume_path", request.volume_path},
            {"staging_target_path", request.staging_target_path}};
  }
  Json operator()(const ControllerCall& call) const {
    return {{"rpc", call.rpc},
            {"form", static_cast<int>(call.form)},
            {"request", ToJson(call.request)}};
  }
};

// The object has one key, and the key says which answer it is.
struct AnswerToJson {
  Json operator()(std::monostate /*none*/) const { return Json::object(); }
  Json operator()(const ProbeResult& probe) const {
    return {{"ready", probe.ready}};
  }
  Json operator()(const PluginInfo& info) const {
    return {{"info",
             {{"name", info.name}, {"vendor_version", info.vendor_version}}}};
  }
  Json operator()(const PluginCapabilities& capabilities) const {
    return {{"capabilities",
             {{"services", capabilities.services},
              {"controller_rpcs", capabilities.controller_rpcs},
              {"node_rpcs", capabilities.node_rpcs}}}};
  }
  Json operator()(const NodeInfo& node) const {
    return {{"node",
             {{"node_id", node.node_id},
              {"max_volumes", node.max_volumes},
              {"topology", node.topology}}}};
  }
  Json operator()(const ExpandResult& expanded) const {
    return {{"capacity_bytes", expanded.capacity_bytes}};
  }
  Json operator()(const VolumeStats& stats) const {
    return {{"stats", ToJson(stats)}};
  }
  Json operator()(const ControllerAnswer& answer) const {
    return {{"response", ToJson(answer.response)}};
  }
};

}  // namespace

std::string RpcName(const Request& request) {
  switch (request.method) {
    case Method::kProbe:
      return "Probe";
    case Method::kGetPluginInfo:
      return "GetPluginInfo";
    case Method::kGetCapabilities:
      return "GetPluginCapabilities";
    case Method::kNodeGetInfo:
      return "NodeGetInfo";
    case Method::kNodeStageVolume:
      return "NodeStageVolume";
    case Method::kNodeUnstageVolume:
      return "NodeUnstageVolume";
    case Method::kNodePublishVolume:
      return "NodePublishVolume";
    case Method::kNodeUnpublishVolume:
      return "NodeUnpublishVolume";
    case Method::kNodeExpandVolume:
      return "NodeExpandVolume";
    case Method::kNodeGetVolumeStats:
      return "NodeGetVolumeStats";
    case Method::kNodeGetVolumeHealth:
      return "NodeGetVolumeHealth";
    case Method::kCallController: {
      const auto* call = std::get_if<ControllerCall>(&request.arguments);
      return call == nullptr ? "" : call->rpc;
    }
    case Method::kOpen:
    case Method::kClose:
      break;
  }
  return "";
}

bool FitsText(const std::string& text, std::size_t max_bytes) {
  return text.size() <= max_bytes && text.find('\0') == std::string::npos &&
         IsValidUtf8(text);
}

bool FitsMap(const std::map<std::string, std::string>& map) {
  std::size_t bytes = 0;
  for (const auto& [key, value] : map) {
    bytes += key.size() + value.size();
    if (bytes > kMaxMapBytes || !FitsText(key, kMaxMapBytes) ||
        !FitsText(value, kMaxMapBytes)) {
      return false;
    }
  }
  return true;
}

std::vector<std::uint8_t> Encode(const Request& request) {
  Json message = {
      {"id", request.id},
      {"method", static_cast<std::uint32_t>(request.method)},
      {"plugin", request.channel.plugin},
      {"generation", request.channel.generation},
      {"deadline_ms", request.deadline_ms},
      {"arguments", std::visit(ArgumentsToJson{}, request.arguments)}};
  if (request.trace) {
    message["traceparent"] = ToText(*request.trace);
  }
  return Json::to_cbor(message);
}

std::vector<std::uint8_t> Encode(const Reply& reply) {
  return Json::to_cbor({{"id", reply.id},
                        {"code", static_cast<int>(reply.code)},
                        {"message", reply.message},
                        {"answer", std::visit(AnswerToJson{}, reply.answer)}});
}

}  // namespace mountd::csi::ipc
