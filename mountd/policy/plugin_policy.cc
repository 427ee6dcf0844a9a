// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/policy/plugin_policy.h"

namespace mountd {

Result<void> PluginPolicy::MayUsePlugin(const Caller& caller,
                                        const std::string& plugin) const {
  if (rules_.Any(caller, [&](const RuleConfig& rule) {
        return Lists(rule.plugins, plugin);
      })) {
    return Ok();
  }
  return rules_.Denied(
      "use", "plugin " + plugin,
      "no rule grants it to this user; add it to plugins in mountd.toml");
}

Result<void> PluginPolicy::MayRegisterPlugin(const Caller& caller,
                                             const std::string& plugin) const {
  if (rules_.Any(caller, [&](const RuleConfig& rule) {
        return Lists(rule.register_plugins, plugin);
      })) {
    return Ok();
  }
  return rules_.Denied(
      "register", "plugin " + plugin,
      "no rule grants it to this user; add it to register_plugins in "
      "mountd.toml");
}

Result<void> PluginPolicy::MayControlPlugin(const Caller& caller,
                                            const std::string& plugin) const {
  if (rules_.Any(caller, [&](const RuleConfig& rule) {
        return Lists(rule.control_plugins, plugin);
      })) {
    return Ok();
  }
  return rules_.Denied(
      "control", "plugin " + plugin,
      "no rule grants it to this user; add it to control_plugins in "
      "mountd.toml");
}

}  // namespace mountd
