// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/conformance/runner_signals.h"

#include <algorithm>
#include <chrono>

namespace mountd::agent {
namespace {

Json OfInstance(const SignalHandlers::PluginInstance& one) {
  return {{"plugin", one.plugin},
          {"type", one.type},
          {"allocation", one.allocation},
          {"object", one.object}};
}

Json OfMount(const SignalHandlers::Mount& mount, const std::string& reason) {
  return {{"allocation", mount.allocation},
          {"task", mount.task},
          {"name", mount.name},
          {"reason", reason}};
}

Json OfNetwork(const std::string& allocation, const std::string& interface,
               const char* key, const std::string& text) {
  return {{"allocation", allocation}, {"interface", interface}, {key, text}};
}

}  // namespace

Result<void> Signals::Subscribe(const std::string& address) {
  MOUNTD_ASSIGN(Subscriber subscriber,
                Subscriber::Start({.address = address}, Handlers()));
  subscriber_.emplace(std::move(subscriber));
  return Ok();
}

std::optional<Json> Signals::Take(const std::string& name) {
  std::unique_lock lock(mutex_);
  const auto find = [&] {
    return std::find_if(kept_.begin(), kept_.end(),
                        [&](const auto& one) { return one.first == name; });
  };
  if (!changed_.wait_for(lock, std::chrono::seconds(10),
                         [&] { return find() != kept_.end(); })) {
    return std::nullopt;
  }
  const auto found = find();
  Json arguments = std::move(found->second);
  kept_.erase(found);
  return arguments;
}

SignalHandlers Signals::Handlers() {
  SignalHandlers handlers;
  AddOperations(handlers);
  AddPlugins(handlers);
  AddMountsAndVolumes(handlers);
  AddNode(handlers);
  return handlers;
}

void Signals::AddOperations(SignalHandlers& handlers) {
  handlers.operation_done = [this](const SignalHandlers::Outcome& one) {
    Keep("OperationDone",
         {{"operation", one.operation},
          {"error", one.failed ? std::string(CodeName(one.error.code)) : ""},
          {"message", one.failed ? one.error.Message() : ""}});
  };
  handlers.operation_step = [this](const OperationStatus& one) {
    Keep("OperationStep", {{"operation", one.id}, {"status", ToJson(one)}});
  };
  handlers.operation_progress = [this](const std::string& operation,
                                       const std::string& method,
                                       std::uint64_t done) {
    Keep("OperationProgress",
         {{"operation", operation}, {"method", method}, {"done", done}});
  };
}

void Signals::AddPlugins(SignalHandlers& handlers) {
  handlers.plugin_changed = [this](const std::string& plugin,
                                   const std::string& state,
                                   const std::string& reason) {
    Keep("PluginChanged",
         {{"plugin", plugin}, {"state", state}, {"reason", reason}});
  };
  handlers.plugin_added = [this](const SignalHandlers::PluginInstance& one) {
    Keep("PluginAdded", OfInstance(one));
  };
  handlers.plugin_removed = [this](const SignalHandlers::PluginInstance& one) {
    Keep("PluginRemoved", OfInstance(one));
  };
  handlers.plugin_event = [this](const SignalHandlers::PluginEvent& one) {
    Keep("PluginEvent", {{"plugin", one.plugin},
                         {"type", one.type},
                         {"allocation", one.allocation},
                         {"event", one.event},
                         {"message", one.message}});
  };
  handlers.node_info_changed =
      [this](const SignalHandlers::NodeInfoChange& one) {
        Keep("NodeInfoChanged", {{"plugin", one.plugin},
                                 {"type", one.type},
                                 {"allocation", one.allocation},
                                 {"node", ToJson(one.node)},
                                 {"text", one.text}});
      };
}

void Signals::AddMountsAndVolumes(SignalHandlers& handlers) {
  handlers.mount_lost = [this](const SignalHandlers::Mount& mount,
                               const std::string& reason) {
    Keep("MountLost", OfMount(mount, reason));
  };
  handlers.mount_health = [this](const SignalHandlers::Mount& mount,
                                 const std::string& state,
                                 const std::string& reason) {
    Json arguments = OfMount(mount, reason);
    arguments["state"] = state;
    Keep("MountHealth", std::move(arguments));
  };
  handlers.volume_health = [this](const SignalHandlers::Volume& volume,
                                  const std::string& state,
                                  const std::string& reason) {
    Keep("VolumeHealth", {{"plugin", volume.plugin},
                          {"volume", volume.volume},
                          {"state", state},
                          {"reason", reason}});
  };
  handlers.secrets_needed = [this](const std::string& allocation,
                                   const std::string& alias,
                                   const SignalHandlers::Volume& volume) {
    Keep("SecretsNeeded", {{"allocation", allocation},
                           {"alias", alias},
                           {"plugin", volume.plugin},
                           {"volume", volume.volume}});
  };
  handlers.lease_lapsed = [this](const std::string& lease, std::uint32_t uid,
                                 const std::string& reason) {
    Keep("LeaseLapsed", {{"lease", lease}, {"uid", uid}, {"reason", reason}});
  };
  handlers.fence_done = [this](const std::string& allocation,
                               const std::string& lease) {
    Keep("FenceDone", {{"allocation", allocation}, {"lease", lease}});
  };
  handlers.lease_changed = [this](const std::string& lease, std::uint32_t uid,
                                  const LeaseChange& change) {
    Keep("LeaseChanged",
         {{"lease", lease}, {"uid", uid}, {"change", ToJson(change)}});
  };
}

void Signals::AddNode(SignalHandlers& handlers) {
  handlers.owed_changed = [this](std::uint32_t count) {
    Keep("OwedChanged", {{"count", count}});
  };
  handlers.owed_overdue = [this](const OwedSummary& owed) {
    Keep("OwedOverdue",
         {{"count", owed.count}, {"since", MemberToJson(owed.since)}});
  };
  handlers.stuck_changed = [this](std::uint32_t count) {
    Keep("StuckChanged", {{"count", count}});
  };
  handlers.addresses_scarce = [this](const std::string& network,
                                     const AddressUsage& usage) {
    Keep("AddressesScarce", {{"network", network},
                             {"capacity", usage.capacity},
                             {"free", usage.free}});
  };
  handlers.network_repaired = [this](const std::string& allocation,
                                     const std::string& interface,
                                     const std::string& what) {
    Keep("NetworkRepaired", OfNetwork(allocation, interface, "what", what));
  };
  handlers.network_lost = [this](const std::string& allocation,
                                 const std::string& interface,
                                 const std::string& reason) {
    Keep("NetworkLost", OfNetwork(allocation, interface, "reason", reason));
  };
  handlers.ruleset_restored = [this] {
    Keep("RulesetRestored", Json::object());
  };
}

void Signals::Keep(const char* name, Json arguments) {
  const std::lock_guard lock(mutex_);
  kept_.emplace_back(name, std::move(arguments));
  changed_.notify_all();
}

}  // namespace mountd::agent
