// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/plugin_verbs.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace mountd {

Result<csi::PluginRegistration> PluginVerbs::RegisterPlugin(
    const CallContext& call, PluginRecord record) {
  MOUNTD_TRY(access_.PolicyFor(call).plugins().MayRegisterPlugin(call.caller,
                                                                 record.id));
  MOUNTD_TRY(CheckNotDeclared("register", record.id));
  std::optional<AllocationRecord> owner;
  if (!record.allocation.empty()) {
    MOUNTD_ASSIGN(owner, access_.FindPrepared(call, record.allocation));
  }
  record.uid = call.caller.uid;
  bool is_new = true;
  if (const auto known = parts_.plugins.Get(record.id)) {
    MOUNTD_TRY(access_.PolicyFor(call).MayUse(call.caller, known->record.uid,
                                              "plugin " + record.id));
    // If an administrator registers the plugin, its owner stays the same.
    record.uid = known->record.uid;
    is_new = std::none_of(known->instances.begin(), known->instances.end(),
                          [&](const csi::PluginInstance& one) {
                            return one.record.type == record.type &&
                                   one.record.allocation == record.allocation;
                          });
  }
  if (is_new) {
    MOUNTD_TRY(CheckPluginLimit(record.uid));
  }
  MOUNTD_ASSIGN(csi::PluginRegistration registered,
                parts_.plugins.Register(record));
  Result<void> usable = owner ? access_.leases().CheckUsable(*owner) : Ok();
  if (!usable) {
    // The lease lapsed during the call, so undo a registration that this call
    // made.
    if (is_new) {
      IgnoreBecauseBestEffort(parts_.plugins.Unregister(
          record.id, {record.type, record.allocation}));
    }
    return std::move(usable).error();
  }
  return registered;
}

// Refuses declared plugins, because only the configuration adds and removes
// them.
Result<void> PluginVerbs::CheckNotDeclared(const char* op,
                                           const std::string& plugin) const {
  if (!parts_.config.plugins().contains(plugin)) {
    return Ok();
  }
  return MakeError(
      Code::kFailedPrecondition, op, "plugin " + plugin,
      "is declared in mountd.toml, so no agent can register or unregister it");
}

// Bounds a user's plugins, because each costs a thread and probes.
Result<void> PluginVerbs::CheckPluginLimit(std::uint32_t uid) {
  std::size_t count = 0;
  for (const csi::PluginStatus& one : parts_.plugins.List()) {
    count += one.record.uid == uid ? one.instances.size() : 0;
  }
  if (count >= parts_.config.limits().plugins_per_uid) {
    return MakeError(Code::kResourceExhausted, "register", "plugin",
                     "limits.plugins_per_uid is reached; unregister others of "
                     "this user or raise the limit");
  }
  return Ok();
}

Result<void> PluginVerbs::UnregisterPlugin(const CallContext& call,
                                           const Name& plugin,
                                           const csi::PluginSelection& which) {
  const std::optional<csi::PluginStatus> known =
      parts_.plugins.Get(plugin.str());
  if (!known) {
    return Ok();
  }
  MOUNTD_TRY(access_.PolicyFor(call).MayUse(call.caller, known->record.uid,
                                            "plugin " + plugin.str()));
  MOUNTD_TRY(CheckNotDeclared("unregister", plugin.str()));
  return parts_.plugins.Unregister(plugin.str(), which);
}

Result<csi::PluginStatus> PluginVerbs::GetPlugin(const CallContext& call,
                                                 const Name& plugin) {
  std::optional<csi::PluginStatus> status = parts_.plugins.Get(plugin.str());
  if (!status) {
    return MakeError(Code::kNotFound, "find", "plugin " + plugin.str(),
                     "is not registered");
  }
  if (!access_.SeesPlugin(call, status->record)) {
    return ButAdministrators(MakeError(
        Code::kPermissionDenied, "find", "plugin " + plugin.str(),
        "no rule grants it to this user; add it to plugins in mountd.toml"));
  }
  return *std::move(status);
}

Result<std::vector<csi::PluginStatus>> PluginVerbs::ListPlugins(
    const CallContext& call) {
  std::vector<csi::PluginStatus> all = parts_.plugins.List();
  std::erase_if(all, [&](const csi::PluginStatus& status) {
    return !access_.SeesPlugin(call, status.record);
  });
  return all;
}

}  // namespace mountd
