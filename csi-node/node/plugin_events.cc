// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/node/plugin_events.h"

#include <map>

#include "mountd/base/one_line.h"

namespace mountd::csi {
namespace {

std::string TopologyText(const std::map<std::string, std::string>& topology) {
  std::string text;
  for (const auto& [key, value] : topology) {
    text += (text.empty() ? "" : ",") + key + "=" + value;
  }
  return text.empty() ? "none" : text;
}

std::string StepText(const char* what, const std::string& before,
                     const std::string& now) {
  return std::string(what) + " " + before + " -> " + now;
}

}  // namespace

std::optional<PluginEvent> EventOf(const PluginChange& change) {
  const PluginInstance& now = change.now;
  if (change.kind != PluginChange::Kind::kChanged ||
      change.before.state == now.state) {
    return std::nullopt;
  }
  if (now.state == PluginState::kHealthy) {
    return PluginEvent{"Plugin became healthy",
                       OnOneLine("plugin: " + now.record.id)};
  }
  if (now.state == PluginState::kUnhealthy) {
    // Nomad's words for an error without a text.
    return PluginEvent{"Plugin became unhealthy",
                       now.reason.empty() ? "Unknown Reason"
                                          : OnOneLine("Error: " + now.reason)};
  }
  return std::nullopt;
}

bool HasComeBack(const PluginChange& change) {
  const PluginInstance& before = change.before;
  return change.now.state == PluginState::kHealthy &&
         (change.kind != PluginChange::Kind::kChanged ||
          before.state != PluginState::kHealthy ||
          before.generation != change.now.generation);
}

bool HasOtherNodeId(const NodeInfo& before, const NodeInfo& now) {
  return !before.node_id.empty() && before.node_id != now.node_id;
}

std::string ConcernOf(const NodeInfo& before, const NodeInfo& now) {
  return OnOneLine("its node id changed from " + before.node_id + " to " +
                   now.node_id + ", so volumes that are attached to " +
                   before.node_id + " may not reach this node");
}

std::optional<NodeInfoChange> NodeInfoChangeOf(const PluginChange& change) {
  const NodeInfo& before = change.before.node;
  const NodeInfo& now = change.now.node;
  if (change.kind != PluginChange::Kind::kChanged || before.node_id.empty() ||
      before == now) {
    return std::nullopt;
  }
  NodeInfoChange changed;
  const auto add = [&](const std::string& step) {
    changed.text += (changed.text.empty() ? "" : "; ") + step;
  };
  changed.node_id = before.node_id != now.node_id;
  if (changed.node_id) {
    add(StepText("node_id", before.node_id, now.node_id));
  }
  changed.max_volumes = before.max_volumes != now.max_volumes;
  if (changed.max_volumes) {
    add(StepText("max_volumes", std::to_string(before.max_volumes),
                 std::to_string(now.max_volumes)));
  }
  changed.topology = before.topology != now.topology;
  if (changed.topology) {
    add(StepText("topology", TopologyText(before.topology),
                 TopologyText(now.topology)));
  }
  changed.text = OnOneLine(changed.text);
  return changed;
}

}  // namespace mountd::csi
