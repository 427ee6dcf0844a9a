// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/node/plugin_events.h"

#include "mountd/base/one_line.h"

namespace mountd::csi {

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
    return PluginEvent{
        "Plugin became unhealthy",
        now.reason.empty() ? "Unknown Reason"
                           : OnOneLine("Error: " + now.reason)};
  }
  return std::nullopt;
}

}  // namespace mountd::csi
