// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>

#include "csi-node/node/plugin_status.h"

namespace mountd::csi {

// An event of a plugin's task, in the words in which orchestrators show it
// (Nomad: TaskEvent.DisplayMessage). An agent hands both texts on unchanged.
struct PluginEvent {
  std::string event;    // "Plugin became healthy"; one of a few fixed texts
  std::string message;  // "plugin: <id>", "Error: <reason>"; on one line
};

// Returns the event of a change of an instance; nullopt if the instance is as
// healthy as before. The first health of a plugin after mountd's start is an
// event, because mountd keeps no record of a plugin's health.
std::optional<PluginEvent> EventOf(const PluginChange& change);

// True if calls that failed may succeed now: the plugin, or its instance, is
// healthy, and was not before or has another connection.
bool HasComeBack(const PluginChange& change);

// A change of what a plugin says of this node (NodeGetInfo).
struct NodeInfoChange {
  bool node_id = false;
  bool max_volumes = false;
  bool topology = false;
  // "max_volumes 10 -> 16; topology zone=a -> zone=b"; on one line.
  std::string text;
};

// Returns the change of the NodeInfo of an instance; nullopt if there is none,
// and for the first NodeInfo of an instance.
std::optional<NodeInfoChange> NodeInfoChangeOf(const PluginChange& change);

// True if a plugin says another node id than before.
bool HasOtherNodeId(const NodeInfo& before, const NodeInfo& now);
// Returns why another node id needs an operator; one line.
std::string ConcernOf(const NodeInfo& before, const NodeInfo& now);

}  // namespace mountd::csi
