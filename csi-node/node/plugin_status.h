// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "csi-node/types/csi_client.h"
#include "mountd/base/names.h"
#include "mountd/store/records.h"

namespace mountd::csi {

// The states of an instance:
//
//   starting --ready--> healthy --probe failed, hung up--> unhealthy --ready-->
//   healthy
//      |                                                      ^
//      +---- health timeout, or it is no node plugin ---------+
//
// Unregistering leads from each of them to gone. A plugin that was never ready
// is "starting" and not "unhealthy", because it has lost nothing. The plugin's
// own state is that of the instance that node calls go to, or gone if there is
// no instance; mountd keeps a gone plugin for the volumes that are recorded for
// it.
enum class PluginState { kStarting, kHealthy, kUnhealthy, kGone };

std::string_view PluginStateName(PluginState state);

// All facts about one instance. The fingerprint is from its last connection,
// perhaps to an earlier mountd.
struct PluginInstance : Fingerprint {
  PluginRecord record;
  PluginState state = PluginState::kStarting;
  std::string reason;
  std::uint64_t generation = 0;  // of its connection; unique in the plugin
  std::uint64_t updated_us = 0;  // when state or fingerprint came, since 1970
  // The other ids of this node that mountd has learned before node.node_id, the
  // newest first, at most kMostFormerNodeIds. The store keeps them.
  std::vector<std::string> former_node_ids{};
  static constexpr std::size_t kMostFormerNodeIds = 16;

  InstanceKey key() const;
  bool serves_node() const { return record.type != "controller"; }
  bool serves_controller() const { return record.type != "node"; }
  bool stages() const;  // NodeServiceCapability STAGE_UNSTAGE_VOLUME
  // Returns the ids of this node that the instance has said, the newest first.
  std::vector<std::string> NodeIds() const;
};

// A plugin: its base is the instance that node calls go to.
struct PluginStatus : PluginInstance {
  std::vector<PluginInstance> instances;  // the newest first
  // The ids of this node that removed instances have said, the newest first, at
  // most kMostFormerNodeIds. The store keeps them as long as the plugin.
  std::vector<std::string> removed_node_ids{};

  // True if `node_id` may be this node: a present or removed instance has used
  // this id for it, or an instance that serves the node has said no id, or no
  // present instance has said an id.
  bool MayCallThisNode(const std::string& node_id) const;
};

// Returns the plugin of these instances, of which there is at least one, the
// newest first. Its base is the newest healthy instance for the node, else the
// newest instance for the node, else the newest healthy of any type, else the
// newest.
PluginStatus StatusOf(std::vector<PluginInstance> instances);

struct PluginChange {
  enum class Kind {
    kAdded,    // an instance
    kChanged,  // an instance's state or fingerprint
    kRemoved,  // an instance
    kPlugin,   // the plugin's state
  };
  Kind kind = Kind::kChanged;
  PluginInstance now;
  PluginInstance before{};  // of kChanged: the instance of the last change
};

using OnPluginChange = std::function<void(const PluginChange&)>;

// Returns base/p/<plugin> on the host.
std::string PluginHostPath(const std::string& plugin);
// Returns the path of `relative` ("": the directory itself) in the plugin's
// directory, as the plugin's task sees it.
std::string PluginViewPath(const PluginRecord& record,
                           const std::string& relative);

}  // namespace mountd::csi
