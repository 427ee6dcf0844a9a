// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <string>
#include <vector>

#include "csi-node/plugins.h"
#include "mountd/base/result.h"
#include "mountd/config.h"
#include "mountd/exec/executor.h"

namespace mountd::csi {

// The plugins that root's configuration declares: registered as root's, and
// started through the executor, which reads for itself how. mountd only says
// which. They outlive mountd; those that are declared no longer are stopped.
//
// Methods block; those of one plugin are called one at a time (its strand).
class DeclaredPlugins {
 public:
  DeclaredPlugins(const std::map<std::string, PluginConfig>& declared,
                  exec::Executor& executor, Plugins& plugins)
      : declared_(declared), executor_(executor), plugins_(plugins) {}

  // Those declared, and those that were.
  std::vector<std::string> Names() const;
  // Registers and starts it, or lets go of it. An error that is Unavailable or
  // DeadlineExceeded may pass; why it does not run is the plugin's reason, too.
  Result<void> Settle(const std::string& name);

 private:
  Result<void> LetGo(const std::string& name);

  const std::map<std::string, PluginConfig>& declared_;
  exec::Executor& executor_;
  Plugins& plugins_;
};

}  // namespace mountd::csi
