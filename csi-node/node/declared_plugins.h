// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <string>
#include <vector>

#include "csi-node/node/plugins.h"
#include "mountd/base/result.h"
#include "mountd/config/config.h"
#include "mountd/plan/plugin_executor.h"

namespace mountd::csi {

// Registers the plugins that root's configuration declares as root's, and has
// the executor start them. mountd only passes a plugin's name; the executor
// reads from the configuration how to start the plugin. The plugins outlive
// mountd. Stops plugins that are no longer declared.
//
// Methods block. Calls for one plugin come one at a time (its strand).
class DeclaredPlugins {
 public:
  DeclaredPlugins(const std::map<std::string, PluginConfig>& declared,
                  exec::PluginExecutor& executor, Plugins& plugins)
      : declared_(declared), executor_(executor), plugins_(plugins) {}

  // Returns the plugins that are declared, and those that were declared before.
  std::vector<std::string> Names() const;
  // Registers and starts the plugin if it is declared; otherwise stops and
  // unregisters it. The caller may repeat the call after Unavailable and
  // DeadlineExceeded. If the plugin cannot start, its status shows the reason
  // (Plugins::SetObstacle).
  Result<void> Settle(const std::string& name);

 private:
  Result<void> LetGo(const std::string& name);

  const std::map<std::string, PluginConfig>& declared_;
  exec::PluginExecutor& executor_;
  Plugins& plugins_;
};

}  // namespace mountd::csi
