// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "csi-node/csi_client.h"
#include "mountd/base/names.h"
#include "mountd/store/records.h"

namespace mountd::csi {

// Of an instance:
//
//   starting --ready--> healthy --probe failed, hung up--> unhealthy --ready-->
//   healthy
//      |                                                      ^
//      +---- health timeout, or it is no node plugin ---------+
//
// and from each of them, unregistered: gone. "Starting" is not "unhealthy": a
// plugin that was never ready has lost nothing. A plugin is what the instance
// is that calls for the node go to, or gone if it has none, and is kept for the
// volumes that are recorded for it.
enum class PluginState { kStarting, kHealthy, kUnhealthy, kGone };

std::string_view PluginStateName(PluginState state);

// Everything known of one instance. The fingerprint is from its last
// connection, perhaps to another mountd.
struct PluginInstance : Fingerprint {
  PluginRecord record;
  PluginState state = PluginState::kStarting;
  std::string reason;
  std::uint64_t generation = 0;  // of its connection, among all of the plugin's
  std::uint64_t updated_us = 0;  // when state or fingerprint came, since 1970

  InstanceKey key() const;
  bool serves_node() const { return record.type != "controller"; }
  bool serves_controller() const { return record.type != "node"; }
  bool stages() const;  // NodeServiceCapability STAGE_UNSTAGE_VOLUME
};

// A plugin: itself the instance that node calls go to, and all there are.
struct PluginStatus : PluginInstance {
  std::vector<PluginInstance> instances;  // the newest first
};

// The plugin of these instances, the newest first and at least one: as its
// newest healthy instance for the node, or newest such, or of any type.
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
};

using OnPluginChange = std::function<void(const PluginChange&)>;

// base/p/<plugin> on the host.
std::string PluginHostPath(const std::string& plugin);
// What lies at `relative` in there ("": itself), as the plugin's task sees it.
std::string PluginViewPath(const PluginRecord& record,
                           const std::string& relative);

}  // namespace mountd::csi
