// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/node/plugin_status.h"

#include <algorithm>
#include <utility>

#include "mountd/base/paths.h"

namespace mountd::csi {
namespace {

bool IsBeneath(const std::string& relative, std::string_view directory) {
  return paths::IsAtOrBelow(relative, directory);
}

}  // namespace

std::string_view PluginStateName(PluginState state) {
  switch (state) {
    case PluginState::kStarting:
      return "starting";
    case PluginState::kHealthy:
      return "healthy";
    case PluginState::kUnhealthy:
      return "unhealthy";
    case PluginState::kGone:
      break;
  }
  return "gone";
}

InstanceKey PluginInstance::key() const {
  return InstanceKey::Derive(record.allocation, record.type);
}

bool PluginInstance::stages() const {
  return Offers(capabilities, NodeRpc::kStageUnstageVolume);
}

std::vector<std::string> PluginInstance::NodeIds() const {
  std::vector<std::string> ids = former_node_ids;
  if (!node.node_id.empty()) {
    ids.insert(ids.begin(), node.node_id);
  }
  return ids;
}

bool PluginStatus::MayCallThisNode(const std::string& node_id) const {
  const auto has = [&](const std::vector<std::string>& ids) {
    return std::find(ids.begin(), ids.end(), node_id) != ids.end();
  };
  bool has_said_one = false;
  for (const PluginInstance& instance : instances) {
    has_said_one |= !instance.node.node_id.empty();
    const bool is_unknown =
        instance.serves_node() && instance.node.node_id.empty();
    if (is_unknown || has(instance.NodeIds())) {
      return true;
    }
  }
  return !has_said_one || has(removed_node_ids);
}

PluginStatus StatusOf(std::vector<PluginInstance> instances) {
  const auto rank = [](const PluginInstance& one) {
    return (one.serves_node() ? 2 : 0) +
           (one.state == PluginState::kHealthy ? 1 : 0);
  };
  // max_element returns the first of equal rank, and that is the newest.
  const auto best = std::max_element(
      instances.begin(), instances.end(),
      [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return PluginStatus{*best, std::move(instances)};
}

std::string PluginHostPath(const std::string& plugin) {
  return std::string(paths::kBase) + "/" + paths::kPlugins + "/" + plugin;
}

std::string PluginViewPath(const PluginRecord& record,
                           const std::string& relative) {
  const bool elsewhere = !record.stage_publish_base_dir.empty() &&
                         (IsBeneath(relative, paths::kStaging) ||
                          IsBeneath(relative, paths::kPublish));
  std::string root = elsewhere                  ? record.stage_publish_base_dir
                     : record.mount_dir.empty() ? PluginHostPath(record.id)
                                                : record.mount_dir;
  return relative.empty() ? root : root + "/" + relative;
}

}  // namespace mountd::csi
