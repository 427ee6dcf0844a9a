// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>
#include <utility>

#include "csi-node/node/plugin_supervisor.h"
#include "csi-node/node/plugins.h"

namespace mountd::csi {

Result<Plugins::Session> Plugins::UseOf(const std::string& id,
                                        const char* service,
                                        bool (PluginInstance::*serves)()
                                            const) const {
  std::optional<PluginStatus> status = Get(id);
  const std::string object = "plugin " + id;
  if (!status) {
    return MakeError(Code::kNotFound, "use", object,
                     "is not registered; register it first");
  }
  const PluginInstance* newest = nullptr;
  for (const PluginInstance& one : status->instances) {
    if (!(one.*serves)()) {
      continue;
    }
    if (one.state == PluginState::kHealthy) {
      return Session{{id, one.generation}, one};
    }
    newest = newest == nullptr ? &one : newest;
  }
  if (newest == nullptr) {
    return WithAway(
        Away::kPlugin,
        MakeError(
            Code::kUnavailable, "use", object,
            status->state == PluginState::kGone
                ? "is gone: " + status->reason
                : std::string("has no instance that offers the ") + service));
  }
  return WithAway(
      Away::kPlugin,
      MakeError(Code::kUnavailable, "use", object,
                "is " + std::string(PluginStateName(newest->state)) + ": " +
                    newest->reason));
}

Result<Plugins::Session> Plugins::Use(const std::string& id) const {
  return UseOf(id, "node", &PluginInstance::serves_node);
}

Result<Plugins::Session> Plugins::UseController(const std::string& id) const {
  return UseOf(id, "controller", &PluginInstance::serves_controller);
}

void Plugins::AwaitFirstAttempt(const std::string& id) const {
  const Clock::time_point deadline = Clock::now() + timeouts_.probe_timeout;
  for (const auto& instance : InstancesOf(id)) {
    instance->AwaitFirstAttempt(deadline);
  }
}

void Plugins::SetObstacle(const std::string& id, const std::string& why) {
  for (const auto& instance : InstancesOf(id)) {
    instance->SetObstacle(why);
  }
}

void Plugins::DoubtNodeInfo(const std::string& id) const {
  for (const auto& instance : InstancesOf(id)) {
    instance->DoubtNodeInfo();
  }
}

void Plugins::ReconnectAll() {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, plugin] : plugins_) {
    for (const auto& instance : plugin.instances) {
      instance->Reconnect();
    }
  }
}

}  // namespace mountd::csi
