// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/node/plugins.h"

#include <algorithm>
#include <utility>

#include "csi-node/node/plugin_supervisor.h"
#include "mountd/base/paths.h"
#include "mountd/plan/wire.h"

namespace mountd::csi {
namespace {

constexpr std::size_t kMaxSocketPath = 107;  // unix(7), without the NUL

InstanceKey KeyOf(const PluginRecord& record) {
  return InstanceKey::Derive(record.allocation, record.type);
}

PluginRegistration RegistrationOf(const PluginRecord& record) {
  PluginRegistration made;
  made.host_path = PluginHostPath(record.id);
  made.mount_dir = PluginViewPath(record, "");
  made.endpoint =
      "unix://" +
      PluginViewPath(record, paths::PluginSocket(KeyOf(record).str()));
  made.mounts.push_back(
      {made.host_path, made.mount_dir, false, "bidirectional"});
  const std::string& base = record.stage_publish_base_dir;
  if (!base.empty() && base != made.mount_dir) {
    made.mounts.push_back({made.host_path, base, false, "bidirectional"});
  }
  // The devices that the plugin attaches appear in /dev.
  if (record.type != "controller") {
    made.mounts.push_back({"/dev", "/dev", false, "host-to-task"});
  }
  return made;
}

// Compares two records with the same key, so with the same allocation.
bool SameRegistration(const PluginRecord& a, const PluginRecord& b) {
  return a.type == b.type && a.mount_dir == b.mount_dir &&
         a.stage_publish_base_dir == b.stage_publish_base_dir;
}

Error RegisteredOtherwise(const std::string& id, const std::string& what) {
  return MakeError(Code::kAlreadyExists, "register", "plugin " + id, what);
}

// True if the allocation that the plugin was registered for no longer exists.
Result<bool> IsOrphan(store::StateStore& store, const PluginRecord& record) {
  if (record.allocation.empty()) {
    return false;
  }
  MOUNTD_ASSIGN(const std::optional<AllocationRecord> found,
                store.allocations.GetAllocation(record.allocation));
  return !found.has_value();
}

}  // namespace

Plugins::Plugins(const TimeoutsConfig& timeouts, exec::PluginExecutor& executor,
                 CsiClient& client, store::StateStore& store,
                 OnPluginChange on_change)
    : timeouts_(timeouts),
      executor_(executor),
      client_(client),
      store_(store),
      on_change_(std::move(on_change)) {}

// The supervisors' threads call back until they end, so mutex_ must be free
// while they are destroyed.
Plugins::~Plugins() {
  std::map<std::string, Plugin> last;
  {
    const std::lock_guard lock(mutex_);
    last.swap(plugins_);
  }
}

Result<void> Plugins::Recover() {
  MOUNTD_ASSIGN(const std::vector<PluginRecord> records,
                store_.plugins.ListPlugins());
  MOUNTD_ASSIGN(const auto fingerprints, store_.plugins.ListFingerprints());
  MOUNTD_ASSIGN(auto former, store_.plugins.ListFormerNodeIds());
  MOUNTD_ASSIGN(auto removed, store_.plugins.ListRemovedNodeIds());
  {
    const std::lock_guard lock(mutex_);
    for (auto& [id, node_ids] : removed) {
      plugins_[id].removed_node_ids = std::move(node_ids);
    }
  }
  std::vector<PluginRecord> orphans;
  for (const PluginRecord& record : records) {
    MOUNTD_ASSIGN(const bool is_orphan, IsOrphan(store_, record));
    if (is_orphan) {
      orphans.push_back(record);
    }
    if (record.serial != 0) {
      const auto known = fingerprints.find(record.serial);
      Supervise(record,
                known == fingerprints.end() ? Fingerprint() : known->second,
                former[record.serial]);
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      Plugin& plugin = plugins_[record.id];
      plugin.record = record;
      plugin.told = PluginState::kGone;
    }
    // A plugin that is kept only for its volumes goes with the last volume.
    IgnoreBecauseBestEffort(Unregister(record.id));
  }
  // A release by an earlier version of mountd has left these.
  for (const PluginRecord& record : orphans) {
    IgnoreBecauseBestEffort(
        Unregister(record.id, {record.type, record.allocation, true}));
  }
  return Ok();
}

void Plugins::Supervise(const PluginRecord& record, const Fingerprint& known,
                        const std::vector<std::string>& former_node_ids) {
  const std::lock_guard lock(mutex_);
  Plugin& plugin = plugins_[record.id];
  plugin.record = record;
  const std::string allocation = record.allocation;
  auto supervisor = std::make_shared<PluginSupervisor>(
      PluginSupervisor::Parts{
          timeouts_, executor_, client_, store_, plugin.connections,
          [this, allocation] { return CgroupOf(allocation); },
          [this](const PluginInstance& before, const PluginInstance& now) {
            Tell({PluginChange::Kind::kChanged, now, before});
          }},
      record, known, former_node_ids);
  plugin.instances.insert(plugin.instances.begin(), std::move(supervisor));
}

// 0 if there is no allocation, or the allocation has no cgroup.
Result<std::uint64_t> Plugins::CgroupOf(const std::string& allocation) const {
  if (allocation.empty()) {
    return std::uint64_t{0};
  }
  MOUNTD_ASSIGN(const std::optional<AllocationRecord> found,
                store_.allocations.GetAllocation(allocation));
  if (!found) {
    // Without the allocation, nothing says who may listen on the socket.
    return MakeError(Code::kUnavailable, "connect", "allocation " + allocation,
                     "was released");
  }
  return found->cgroup;
}

std::shared_ptr<std::mutex> Plugins::ChangingOf(const std::string& id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(changing_,
                [](const auto& one) { return one.second.expired(); });
  std::shared_ptr<std::mutex> changing = changing_[id].lock();
  if (changing == nullptr) {
    changing = std::make_shared<std::mutex>();
    changing_[id] = changing;
  }
  return changing;
}

Result<void> Plugins::CheckRegistration(const PluginRecord& record,
                                        const PluginRegistration& made) const {
  const std::string object = "plugin " + record.id;
  if (record.type != "node" && record.type != "controller" &&
      record.type != "monolith") {
    return MakeError(Code::kInvalidArgument, "register", object,
                     "type must be node, controller or monolith");
  }
  const std::string socket = paths::PluginSocket(KeyOf(record).str());
  const std::size_t on_host = made.host_path.size() + 1 + socket.size();
  const std::size_t in_task = made.mount_dir.size() + 1 + socket.size();
  if (std::max(on_host, in_task) > kMaxSocketPath) {
    return MakeError(Code::kInvalidArgument, "register", object,
                     "its socket's path exceeds 107 bytes; choose a shorter id "
                     "or mount_dir");
  }
  const std::lock_guard lock(mutex_);
  const auto found = plugins_.find(record.id);
  if (found == plugins_.end()) {
    return Ok();
  }
  const PluginRecord& known = found->second.record;
  return known.uid == record.uid &&
                 known.bare_directories == record.bare_directories
             ? Ok()
             : Result<void>(RegisteredOtherwise(
                   record.id,
                   "belongs to another user, or is registered with another "
                   "bare_directories"));
}

Result<std::shared_ptr<PluginSupervisor>> Plugins::FindSame(
    const PluginRecord& record) const {
  for (const auto& instance : InstancesOf(record.id)) {
    const PluginRecord known = instance->status().record;
    if (KeyOf(known) != KeyOf(record)) {
      continue;
    }
    if (!SameRegistration(known, record)) {
      return RegisteredOtherwise(
          record.id,
          "is already registered with other options; unregister it first");
    }
    return instance;
  }
  return std::shared_ptr<PluginSupervisor>();
}

Result<PluginRegistration> Plugins::Register(PluginRecord record) {
  const auto changing = ChangingOf(record.id);
  const std::lock_guard lock(*changing);
  PluginRegistration made = RegistrationOf(record);
  MOUNTD_TRY(CheckRegistration(record, made));
  MOUNTD_ASSIGN(const std::shared_ptr<PluginSupervisor> same, FindSame(record));
  if (same == nullptr) {
    MOUNTD_TRY(Add(std::move(record)));
  } else {
    MOUNTD_TRY(executor_.PreparePlugin({exec::ToWire(record.id)}));
  }
  return made;
}

Result<void> Plugins::Add(PluginRecord record) {
  const bool first = !Get(record.id).has_value();
  MOUNTD_ASSIGN(record.serial, store_.plugins.PutPlugin(record));
  Result<exec::MountState> prepared =
      executor_.PreparePlugin({exec::ToWire(record.id)});
  if (!prepared) {
    const bool undone =
        first ? executor_.RemovePlugin({exec::ToWire(record.id)}) &&
                    store_.plugins.RemovePlugin(record.id)
              : store_.plugins.RemovePluginInstance(record.serial).has_value();
    if (undone) {
      return std::move(prepared).error();
    }
    // If the undo fails, the plugin stays registered, so that its owner can see
    // it.
  }
  PluginInstance added;
  added.record = record;
  // Holds the lock until kAdded is reported, because no other change of the
  // instance may be reported before.
  const std::lock_guard telling(telling_);
  Supervise(record);
  TellLocked({PluginChange::Kind::kAdded, added});
  return prepared ? Ok() : Result<void>(std::move(prepared).error());
}

Plugins::Supervisors Plugins::InstancesOf(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = plugins_.find(id);
  return found == plugins_.end() ? Supervisors() : found->second.instances;
}

PluginStatus Plugins::StatusOfPlugin(const Plugin& plugin) {
  std::vector<PluginInstance> instances;
  instances.reserve(plugin.instances.size());
  for (const auto& instance : plugin.instances) {
    instances.push_back(instance->status());
  }
  if (!instances.empty()) {
    PluginStatus status = StatusOf(std::move(instances));
    status.removed_node_ids = plugin.removed_node_ids;
    return status;
  }
  PluginStatus gone;
  gone.record = plugin.record;
  gone.record.allocation.clear();
  gone.state = PluginState::kGone;
  gone.reason = plugin.why_gone;
  gone.generation = plugin.connections->load();
  return gone;
}

void Plugins::Tell(const PluginChange& change) {
  const std::lock_guard telling(telling_);
  TellLocked(change);
}

void Plugins::TellLocked(const PluginChange& change) {
  on_change_(change);
  std::optional<PluginInstance> edge;
  {
    const std::lock_guard lock(mutex_);
    const auto found = plugins_.find(change.now.record.id);
    if (found != plugins_.end()) {
      PluginStatus status = StatusOfPlugin(found->second);
      if (status.state != found->second.told) {
        found->second.told = status.state;
        edge = std::move(status);
      }
    }
  }
  if (edge) {
    on_change_({PluginChange::Kind::kPlugin, *edge});
  }
}

std::optional<PluginStatus> Plugins::Get(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = plugins_.find(id);
  return found == plugins_.end()
             ? std::nullopt
             : std::optional<PluginStatus>(StatusOfPlugin(found->second));
}

std::vector<PluginStatus> Plugins::List() const {
  const std::lock_guard lock(mutex_);
  std::vector<PluginStatus> all;
  all.reserve(plugins_.size());
  for (const auto& [id, plugin] : plugins_) {
    all.push_back(StatusOfPlugin(plugin));
  }
  return all;
}

}  // namespace mountd::csi
