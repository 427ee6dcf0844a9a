// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>
#include <utility>

#include "csi-node/node/plugin_supervisor.h"
#include "csi-node/node/plugins.h"
#include "mountd/plan/wire.h"

namespace mountd::csi {
namespace {

bool Matches(const PluginRecord& record, const PluginSelection& which) {
  return (!which.type || *which.type == record.type) &&
         (!which.allocation || *which.allocation == record.allocation);
}

}  // namespace

Plugins::Selected Plugins::Select(const std::string& id,
                                  const PluginSelection& which) const {
  Selected selected;
  selected.all = InstancesOf(id);
  for (const auto& instance : selected.all) {
    const PluginInstance status = instance->status();
    const bool goes = Matches(status.record, which);
    (goes ? selected.node_goes : selected.node_stays) |= status.serves_node();
    if (goes) {
      selected.victims.push_back(instance);
    }
  }
  return selected;
}

Result<std::set<std::string>> Plugins::IdsOf(
    const std::string& allocation) const {
  MOUNTD_ASSIGN(const std::vector<PluginRecord> records,
                store_.plugins.ListPlugins());
  std::set<std::string> ids;
  for (const PluginRecord& record : records) {
    if (record.serial != 0 && record.allocation == allocation) {
      ids.insert(record.id);
    }
  }
  return ids;
}

Result<void> Plugins::CheckUnused(const std::string& allocation) const {
  MOUNTD_ASSIGN(const std::set<std::string> ids, IdsOf(allocation));
  for (const std::string& id : ids) {
    if (!Select(id, {{}, allocation}).ends_service()) {
      continue;
    }
    MOUNTD_ASSIGN(const bool in_use,
                  store_.plugins.HasVolumesOfOthers(id, allocation));
    if (in_use) {
      return MakeError(Code::kBusy, "unregister", "plugin " + id,
                       "volumes of other allocations are in use; release these "
                       "first or unregister with force");
    }
  }
  return Ok();
}

Result<void> Plugins::UnregisterOf(const std::string& allocation) {
  MOUNTD_ASSIGN(const std::set<std::string> ids, IdsOf(allocation));
  for (const std::string& id : ids) {
    MOUNTD_TRY(Unregister(id, {{}, allocation}));
  }
  return Ok();
}

Result<void> Plugins::Unregister(const std::string& id,
                                 const PluginSelection& which) {
  const auto changing = ChangingOf(id);
  const std::lock_guard lock(*changing);
  const Selected selected = Select(id, which);
  const Supervisors& victims = selected.victims;
  if (!Get(id) || (victims.empty() &&
                   (!selected.all.empty() || which.type || which.allocation))) {
    return Ok();
  }
  if (!selected.ends_service()) {
    return RemoveSome(id, victims);
  }
  // After this the store accepts no further volume of the plugin.
  const Result<void> unused = store_.plugins.BeginPluginRemoval(id);
  if (!unused) {
    // The plugin stays for its volumes, by force or because no instance of it
    // is left.
    const bool kept = unused.error().code == Code::kBusy &&
                      (which.force || selected.all.empty());
    return kept ? RemoveSome(id, victims) : unused;
  }
  if (selected.all_go()) {
    return RemoveAll(id, victims);
  }
  // The other instances stay, so the store accepts volumes of the plugin again.
  Result<void> removed = RemoveSome(id, victims);
  MOUNTD_TRY(store_.plugins.CancelPluginRemoval(id));
  return removed;
}

Result<void> Plugins::RemoveAll(const std::string& id,
                                const Supervisors& victims) {
  const auto set_removing = [&](bool removing) {
    for (const auto& instance : victims) {
      instance->SetRemoving(removing);
    }
  };
  // The supervisors must not make the directory again meanwhile.
  set_removing(true);
  if (Result<void> removed = executor_.RemovePlugin({exec::ToWire(id)});
      !removed) {
    set_removing(false);
    MOUNTD_TRY(store_.plugins.CancelPluginRemoval(id));
    return removed;
  }
  MOUNTD_TRY(store_.plugins.RemovePlugin(id));
  {
    const std::lock_guard lock(mutex_);
    // Sets the reason before Forget, because Forget's signals give it.
    plugins_[id].why_gone = "unregistered";
  }
  Forget(id, victims);
  const std::lock_guard lock(mutex_);
  plugins_.erase(id);
  return Ok();
}

Result<void> Plugins::RemoveSome(const std::string& id,
                                 const Supervisors& victims) {
  for (const auto& instance : victims) {
    const PluginInstance status = instance->status();
    // Keeps the ids before the removal, because a kill between both must lose
    // no id.
    MOUNTD_TRY(KeepNodeIds(id, status));
    MOUNTD_TRY(store_.plugins.RemovePluginInstance(status.record.serial));
    Forget(id, {instance});
    // The instance may have said another id until it was stopped.
    if (const PluginInstance last = instance->status();
        last.NodeIds() != status.NodeIds()) {
      IgnoreBecauseBestEffort(KeepNodeIds(id, last));
    }
    exec::PluginSocketPlan plan;
    plan.plugin = exec::ToWire(id);
    plan.instance = status.key().hex();
    // The plugin's directory stays here, so this call removes the instance's
    // socket.
    IgnoreBecauseBestEffort(executor_.RemovePluginSocket(plan));
  }
  return Ok();
}

Result<void> Plugins::KeepNodeIds(const std::string& id,
                                  const PluginInstance& instance) {
  std::vector<std::string> ids = instance.NodeIds();
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::string>& kept = plugins_[id].removed_node_ids;
    for (const std::string& one : kept) {
      if (std::find(ids.begin(), ids.end(), one) == ids.end()) {
        ids.push_back(one);
      }
    }
    ids.resize(std::min(ids.size(), PluginInstance::kMostFormerNodeIds));
    kept = ids;
  }
  return store_.plugins.SetRemovedNodeIds(id, ids);
}

void Plugins::Forget(const std::string& id, const Supervisors& victims) {
  for (const auto& instance : victims) {
    {
      const std::lock_guard lock(mutex_);
      std::erase(plugins_[id].instances, instance);
    }
    // Stops the supervisor before kRemoved, so that no change follows. Does not
    // hold mutex_, because the supervisor's thread may be in Tell.
    instance->Stop();
    PluginInstance last = instance->status();
    last.state = PluginState::kGone;
    last.reason = "unregistered";
    Tell({PluginChange::Kind::kRemoved, last});
  }
}

}  // namespace mountd::csi
