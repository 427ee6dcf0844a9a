// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mountd/service/caller_access.h"
#include "mountd/service/service_parts.h"

namespace mountd {

// Owns nothing; registers, unregisters and shows CSI plugins. Runs on workers,
// on the plugin's strand. Never changes a plugin that mountd.toml declares.
class PluginVerbs {
 public:
  PluginVerbs(const ServiceParts& parts, const CallerAccess& access)
      : parts_(parts), access_(access) {}

  Result<csi::PluginRegistration> RegisterPlugin(const CallContext& call,
                                                 PluginRecord record);
  Result<void> UnregisterPlugin(const CallContext& call, const Name& plugin,
                                const csi::PluginSelection& which = {});
  Result<csi::PluginStatus> GetPlugin(const CallContext& call,
                                      const Name& plugin);
  Result<std::vector<csi::PluginStatus>> ListPlugins(const CallContext& call);

 private:
  Result<void> CheckNotDeclared(const char* op,
                                const std::string& plugin) const;
  Result<void> CheckPluginLimit(std::uint32_t uid);

  const ServiceParts& parts_;
  const CallerAccess& access_;
};

}  // namespace mountd
