// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/node/declared_plugins.h"

#include "mountd/plan/wire.h"

namespace mountd::csi {

std::vector<std::string> DeclaredPlugins::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, config] : declared_) {
    names.push_back(name);
  }
  for (const PluginStatus& plugin : plugins_.List()) {
    if (plugin.record.declared && !declared_.contains(plugin.record.id)) {
      names.push_back(plugin.record.id);
    }
  }
  return names;
}

// Unregisters by force, because nobody would repeat a removal that answers
// Busy.
Result<void> DeclaredPlugins::LetGo(const std::string& name) {
  MOUNTD_TRY(executor_.StopPlugin({exec::ToWire(name)}));
  return plugins_.Unregister(name, {.force = true});
}

Result<void> DeclaredPlugins::Settle(const std::string& name) {
  const std::optional<PluginStatus> known = plugins_.Get(name);
  const auto found = declared_.find(name);
  if (found == declared_.end()) {
    return known && known->record.declared ? LetGo(name) : Ok();
  }
  PluginRecord record;
  record.id = name;
  record.type = found->second.type;
  record.bare_directories = found->second.bare_directories;
  record.health_timeout_ms = found->second.health_timeout_ms;
  record.declared = true;
  Result<PluginRegistration> registered = plugins_.Register(record);
  if (!registered && registered.error().code == Code::kAlreadyExists && known &&
      known->record.declared) {
    // The plugin was declared differently before.
    MOUNTD_TRY(plugins_.Unregister(name, {.force = true}));
    registered = plugins_.Register(record);
  }
  if (!registered) {
    return std::move(registered).error();
  }
  Result<void> started = executor_.StartPlugin({exec::ToWire(name)});
  plugins_.SetObstacle(name, started ? "" : started.error().Message());
  return started;
}

}  // namespace mountd::csi
